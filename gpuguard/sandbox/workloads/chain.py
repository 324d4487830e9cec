"""The chain of checksums: what a step's checksum is made of. Standard library, Python 3.9."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

BLOCK = 64 * 1024  # bytes
MARK = 16  # bytes of a checksum

Part = Callable[[bytes], bytes]


class Memory(Protocol):
    """Blocks of BLOCK bytes each, by index."""

    def __getitem__(self, index: int, /) -> bytearray:
        """Return the block itself, not a copy."""
        ...


def mix(*pieces: bytes | bytearray) -> bytes:
    """Return the checksum of the pieces, in order."""
    digest = hashlib.blake2b(digest_size=MARK)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def first_block(seed: bytes, index: int) -> bytearray:
    """Return what a block of memory holds before the first step; does not compress."""
    return bytearray(hashlib.shake_128(seed + index.to_bytes(8, "big")).digest(BLOCK))


def first_state(seed: bytes, name: str) -> bytes:
    """Return what the part `name` keeps before the first step."""
    return mix(seed, name.encode())


def advance(
    digest: bytes, number: int, memory: Memory, places: Sequence[int], parts: Sequence[Part]
) -> bytes:
    """Return the checksum of step `number` after the one with `digest`.

    The blocks at `places` are read and then marked, so that a later step needs what an earlier
    one left; then each part adds what it alone keeps.
    """
    digest = mix(digest, number.to_bytes(8, "big"))
    for place in places:
        block = memory[place]
        digest = mix(digest, block)
        block[:MARK] = digest
    for part in parts:
        digest = mix(digest, part(digest))
    return digest


def places_of(number: int, blocks: int, visit: int) -> list[int]:
    """Return the blocks that step `number` visits: `visit` of `blocks`, going round."""
    return [(number * visit + offset) % blocks for offset in range(min(visit, blocks))]
