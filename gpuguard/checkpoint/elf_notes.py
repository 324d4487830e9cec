"""Read the GNU build id of a program or library: the linker's fingerprint of its code."""

import struct
from typing import Callable, Optional

Read = Callable[[int, int], bytes]  # offset and length in bytes → what is there, or less

_PT_NOTE = 4
_NT_GNU_BUILD_ID = 3
_MOST_HEADERS = 512
_MOST_NOTE_BYTES = 64 * 1024
# (class, data) of the identification → offsets and form of what follows.
_HEADERS = {1: (52, "IH", 28, 42), 2: (64, "QH", 32, 54)}


def build_id(read: Read) -> Optional[str]:
    """Return the build id in hexadecimal, None if this is no ELF file or carries none."""
    head = read(0, 64)
    if len(head) < 52 or head[:4] != b"\x7fELF" or head[4] not in _HEADERS or head[5] not in (1, 2):
        return None
    order = "<" if head[5] == 1 else ">"
    for offset, size in _note_segments(read, head, order):
        found = _search(read(offset, min(size, _MOST_NOTE_BYTES)), order)
        if found is not None:
            return found
    return None


def _note_segments(read: Read, head: bytes, order: str) -> list[tuple[int, int]]:
    wide = head[4] == 2
    length, form, table_at, entry_at = _HEADERS[head[4]]
    if len(head) < length:
        return []
    (table,) = struct.unpack_from(order + form[0], head, table_at)
    entry, count = struct.unpack_from(order + "HH", head, entry_at)
    least = 56 if wide else 32
    if entry < least or count > _MOST_HEADERS:
        return []
    data = read(table, entry * count)
    found = []
    for at in range(0, len(data) - least + 1, entry):
        if struct.unpack_from(order + "I", data, at)[0] == _PT_NOTE:
            found.append(_extent(data, at, order, wide))
    return found


def _extent(data: bytes, at: int, order: str, wide: bool) -> tuple[int, int]:
    if wide:
        (offset,) = struct.unpack_from(order + "Q", data, at + 8)
        (size,) = struct.unpack_from(order + "Q", data, at + 32)
    else:
        (offset,) = struct.unpack_from(order + "I", data, at + 4)
        (size,) = struct.unpack_from(order + "I", data, at + 16)
    return offset, size


def _search(notes: bytes, order: str) -> Optional[str]:
    at = 0
    while at + 12 <= len(notes):
        name_size, value_size, kind = struct.unpack_from(order + "III", notes, at)
        name_at = at + 12
        value_at = name_at + _padded(name_size)
        at = value_at + _padded(value_size)
        name = notes[name_at : name_at + name_size]
        if kind == _NT_GNU_BUILD_ID and name == b"GNU\0" and at <= len(notes) + 3:
            value = notes[value_at : value_at + value_size]
            return value.hex() if len(value) == value_size and value else None
    return None


def _padded(size: int) -> int:
    return (size + 3) & ~3
