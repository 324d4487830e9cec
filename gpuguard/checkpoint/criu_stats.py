"""Read the few numbers of CRIU's stats-dump image that belong into a record."""

import struct
from dataclasses import dataclass
from typing import Union

_HEADER = struct.Struct("<III")  # common magic, own magic, length of the message
_SERVICE_MAGIC = 0x55105940
_FIELDS = {1: "freezing", 2: "frozen", 3: "memdump", 4: "memwrite"}


@dataclass(frozen=True)
class DumpStats:
    """Lengths of a dump's phases in seconds; `frozen` is what the job felt."""

    freezing: float = 0.0
    frozen: float = 0.0
    memdump: float = 0.0
    memwrite: float = 0.0


def parse_dump_stats(image: bytes) -> DumpStats:
    """Read a `stats-dump` image.

    Raises:
        ValueError: the image is cut short or of another kind.
    """
    if len(image) < _HEADER.size:
        raise ValueError("stats-dump is cut short")
    magic, _, length = _HEADER.unpack_from(image)
    body = image[_HEADER.size : _HEADER.size + length]
    if magic != _SERVICE_MAGIC or len(body) != length:
        raise ValueError("stats-dump is not a CRIU statistics image, or is cut short")
    dump = _fields(body).get(1)
    if not isinstance(dump, bytes):
        raise ValueError("stats-dump holds no dump statistics")
    numbers = _fields(dump)
    return DumpStats(
        **{
            name: number / 1e6  # CRIU counts microseconds
            for tag, name in _FIELDS.items()
            if isinstance(number := numbers.get(tag, 0), int)
        }
    )


def _fields(message: bytes) -> dict[int, Union[int, bytes]]:
    fields: dict[int, Union[int, bytes]] = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 0:
            fields[key >> 3], at = _varint(message, at)
        elif key & 7 == 2:
            length, at = _varint(message, at)
            fields[key >> 3] = message[at : at + length]
            at += length
        else:
            raise ValueError(f"stats-dump holds a field of unknown type {key & 7}")
    return fields


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message):
            raise ValueError("stats-dump is cut short")
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
