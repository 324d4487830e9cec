"""CRIU's statistics image, as criu 4.2.1 wrote it."""

import struct

import pytest

from gpuguard.checkpoint.criu_stats import parse_dump_stats


# freezing 115 us, frozen 34113 us, memdump 2657 us, memwrite 1252 us
def image(body: bytes) -> bytes:
    dump = body
    message = b"\x0a" + bytes([len(dump)]) + dump
    return struct.pack("<III", 0x55105940, 0x57093306, len(message)) + message


def test_the_freeze_is_read_in_seconds() -> None:
    stats = parse_dump_stats(image(bytes.fromhex("087310c18a0218e11420e409")))
    assert stats.freezing == pytest.approx(0.000115)
    assert stats.frozen == pytest.approx(0.034113)
    assert stats.memdump == pytest.approx(0.002657)
    assert stats.memwrite == pytest.approx(0.001252)


@pytest.mark.parametrize("cut", [0, 4, 11, 13, 20])
def test_a_cut_image_is_an_error_not_a_zero(cut: int) -> None:
    whole = image(bytes.fromhex("087310c18a0218e11420e409"))
    with pytest.raises(ValueError, match="cut short"):
        parse_dump_stats(whole[:cut])


def test_another_image_is_refused() -> None:
    with pytest.raises(ValueError, match="statistics"):
        parse_dump_stats(struct.pack("<III", 1, 2, 0))
