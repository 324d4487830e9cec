"""What every unit test is held to: it starts no process."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
started: list[str] = []


def note(event: str, words: tuple[Any, ...]) -> None:
    if event in STARTS:
        started.append(f"{event} {words[1] if event == 'subprocess.Popen' else ''}".strip())


sys.addaudithook(note)


@pytest.fixture(autouse=True)
def no_process() -> Iterator[None]:
    """Fail a test that starts a process: its place is in tests/integration."""
    started.clear()
    yield
    assert started == [], "a unit test starts no process; move it to tests/integration"
