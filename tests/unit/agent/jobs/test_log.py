"""A log's end and what follows, whatever happens to the file."""

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuguard.agent.jobs.log import LogReader, tail_start


@given(
    st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"")), max_size=9),
    st.booleans(),
    st.integers(0, 12),
)
def test_tail_is_the_last_lines(lines: list[bytes], open_end: bool, count: int) -> None:
    whole = [line + b"\n" for line in lines] + ([b"rest"] if open_end else [])
    data = b"".join(whole)
    start = tail_start(io.BytesIO(data), count)
    assert data[start:] == b"".join(whole[max(0, len(whole) - count) :])


def test_tail_of_a_file_larger_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"{number:08d}\n" for number in range(100_000)))
    reader = LogReader(path, 20_000)
    text = "".join(reader.read())
    assert text.splitlines()[0] == "00080000"
    assert len(text.splitlines()) == 20_000
    reader.close()


def test_rotation_and_truncation_lose_nothing_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n")
    reader = LogReader(path, 10)
    assert "".join(reader.read()) == "one\n"
    with path.open("a") as file:
        file.write("late\n")
        path.rename(tmp_path / "log.1")
    path.write_text("new\n")
    assert "".join(reader.read()) == "late\nnew\n"
    os.truncate(path, 0)
    assert "".join(reader.read()) == ""
    with path.open("a") as file:
        file.write("again\n")
    assert "".join(reader.read()) == "again\n"
    reader.close()


def test_log_that_comes_later_and_split_characters(tmp_path: Path) -> None:
    path = tmp_path / "log"
    reader = LogReader(path, 10)
    assert "".join(reader.read()) == ""
    path.write_bytes("ü".encode()[:1])
    assert "".join(reader.read()) == ""
    with path.open("ab") as file:
        file.write("ü".encode()[1:] + b"\xff\n")
    assert "".join(reader.read()) == "ü�\n"
    reader.close()


@pytest.mark.parametrize("count", [0, 1])
def test_no_lines_means_only_what_follows(tmp_path: Path, count: int) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\n")
    reader = LogReader(path, count)
    assert "".join(reader.read()) == ("" if count == 0 else "two\n")
    reader.close()
