"""Lines out of bytes, however they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuguard.remote.link import LineReader, LineTooLongError


@given(st.lists(st.binary(max_size=8).map(lambda b: b.replace(b"\n", b""))), st.data())
def test_any_cut_gives_the_same_lines(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    reader, found, at = LineReader(), list[bytes](), 0
    while at < len(stream):
        step = data.draw(st.integers(1, 5))
        found += reader.feed(stream[at : at + step])
        at += step
    assert found == lines


def test_line_too_long_is_noticed_before_its_end() -> None:
    reader = LineReader(limit=10)
    assert list(reader.feed(b"0123456789\n012345")) == [b"0123456789"]
    with pytest.raises(LineTooLongError):
        list(reader.feed(b"678901"))


def test_line_too_long_is_noticed_at_its_end() -> None:
    with pytest.raises(LineTooLongError):
        list(LineReader(limit=3).feed(b"0123\n"))
