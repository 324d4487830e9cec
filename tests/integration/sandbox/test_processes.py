"""Only the very process that was noted is ended; only its own machine's boot counts."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuguard.sandbox.processes import ProcessMark, end_processes, mark_of, read_mark


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def _mark(process: subprocess.Popen[bytes]) -> ProcessMark:
    mark = mark_of(process.pid)
    assert mark
    return mark


def test_a_noted_process_is_ended_and_then_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    mark = _mark(sleeper)
    assert mark.alive()
    end_processes([mark, None])
    assert not mark.alive()  # a zombie does not run
    assert sleeper.wait(5) == -9
    end_processes([mark])


def test_another_process_with_the_same_pid_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    mark = _mark(sleeper)
    end_processes([replace(mark, start=mark.start - 1), replace(mark, boot="earlier")])
    assert sleeper.poll() is None


def test_a_note_is_read_only_when_whole(tmp_path: Path) -> None:
    note = tmp_path / "init"
    assert read_mark(note) is None
    note.write_text("12")
    assert read_mark(note) is None
    note.write_text("12 34 boot\n")
    assert read_mark(note) == ProcessMark(12, 34, "boot")
