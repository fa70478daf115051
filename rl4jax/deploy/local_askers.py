"""Who may ask a server that only this machine reaches. Web pages may not, though the browser that shows them is on this machine.

A page may send requests to 127.0.0.1: its `Origin` tells. Or its own name may suddenly mean 127.0.0.1: its `Host` tells.
"""

import ipaddress
from email.message import Message
from urllib.parse import urlsplit

from .http_json import Refused


def own_names(host: str, address: str) -> frozenset[str] | None:
    """The names of a server that was told to listen at `host`, and does at `address`; None if other machines reach it, by any name."""
    if not ipaddress.ip_address(address).is_loopback:
        return None
    return frozenset({"localhost", "127.0.0.1", "::1", host.lower(), address})


def check_asker(headers: Message, names: frozenset[str]) -> None:
    for header, before in (("Host", "//"), ("Origin", "")):
        for value in headers.get_all(header, []):
            if _name(before + value) not in names:
                fix = "Ask as localhost; behind a proxy set a token, or let it send Host: localhost."
                raise Refused(403, f"{header} = {value[:100]!r} is not of this machine, and only that may ask. {fix}")


def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
