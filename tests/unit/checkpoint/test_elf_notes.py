"""The reader of build ids, against odd and broken files."""

import random
import sys
from pathlib import Path

import pytest

from gpuguard.checkpoint.elf_notes import build_id
from tests.unit.checkpoint.elf_bytes import reader


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\2\1" + b"\xff" * 200])
def test_what_is_no_program_has_none(data: bytes) -> None:
    assert build_id(reader(data)) is None


def test_small_and_big_endian_of_32_bits() -> None:
    for mark, order in ((1, "little"), (2, "big")):
        assert build_id(reader(_program(mark, order))) == "deadbeef"


def _program(mark: int, order: str) -> bytes:
    def number(value: int, size: int) -> bytes:
        return value.to_bytes(size, "little" if order == "little" else "big")

    head = bytearray(52)
    head[:6] = b"\x7fELF\1" + bytes([mark])
    head[28:32] = number(52, 4)
    head[42:46] = number(32, 2) + number(1, 2)
    note = number(4, 4) + number(4, 4) + number(3, 4) + b"GNU\0" + bytes.fromhex("deadbeef")
    segment = number(4, 4) + number(84, 4) + bytes(8) + number(len(note), 4) + bytes(12)
    return bytes(head) + segment + note


def test_damaged_programs_never_raise() -> None:
    data = bytearray(Path(sys.executable).resolve().read_bytes()[:4096])
    chance = random.Random(7)  # noqa: S311 - the same damage each time
    for _ in range(3000):
        broken = bytearray(data)
        for _ in range(8):
            broken[chance.randrange(200)] = chance.randrange(256)
        build_id(reader(bytes(broken)))
