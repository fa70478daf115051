"""Who may ask a server that only this machine reaches. Web pages may not, though the browser that shows them is on this machine.

A page may send requests to 127.0.0.1: its `Origin` tells. Or its own name may suddenly mean 127.0.0.1: its `Host` tells.
"""

import ipaddress
from email.message import Message
from urllib.parse import urlsplit

from .http_json import Refused


def own_names(host: str, address: str) -> frozenset[str] | None:
    """The names of a server that was told to listen at `host`, and does at `address`; None if other machines reach it, by any name."""
    bound = ipaddress.ip_address(address)
    if not (getattr(bound, "ipv4_mapped", None) or bound).is_loopback:
        return None
    return frozenset({"localhost", "127.0.0.1", "::1", host.lower(), address})


def check_asker(headers: Message, names: frozenset[str] | None, host: str) -> None:
    """Raise unless this machine asks; of a server for others, unless it is no page, or one of the server's own address.

    By other names than that of `--host` others may ask, but no page: whoever owns a name can let it mean this server for a moment. A page
    may still GET by such a name, as browsers then send no `Origin`: only a token keeps it out.
    """
    hosts = headers.get_all("Host", [])
    for asked in hosts:
        if names is not None and _name("//" + asked) not in names:
            raise Refused(403, f"Host = {asked[:100]!r} is not of this machine, and only that may ask. Ask as localhost, or set a token.")
    own = names or {name for asked in hosts if (name := _name("//" + asked)) and (name == host.lower() or _is_address(name))}
    for origin in headers.get_all("Origin", []):
        if _name(origin) not in own:
            fix = "Set a token, or behind a proxy let it drop Origin and send Host: localhost."
            raise Refused(403, f"Origin = {origin[:100]!r} is not of this machine: a web page of elsewhere asks. {fix}")


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
