"""Everything inside of an ONNX program: bodies of loops and branches too, which its list of nodes does not show."""

from collections.abc import Iterator
from typing import Any


def messages(message: Any) -> Iterator[Any]:
    """A protobuf message, and all that are inside of it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                yield from messages(part)
