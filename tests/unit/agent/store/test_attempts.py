"""Bringing one job back at the same time: one does it, the dead are passed over."""

import dataclasses
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuguard.agent.store.attempts import (
    Attempt,
    Held,
    newest_attempt,
    release_attempt,
    take_attempt,
)
from gpuguard.model.errors import BusyError

FIRST = Attempt("restore-1", "h1", "ann@desk", "2026-11-29T16:00:00Z", seconds=1.0)
SECOND = dataclasses.replace(FIRST, procedure="restore-2", host="h2", asked_by="bob@desk")


def test_the_second_is_told_who_and_since_when(tmp_path: Path) -> None:
    held = take_attempt(tmp_path, FIRST)
    with pytest.raises(BusyError, match="on h1 by restore-1 of ann@desk since 2026-11-29T16"):
        take_attempt(tmp_path, SECOND)
    held.stop()


def test_a_counter_that_stands_still_for_its_term_is_dead(tmp_path: Path) -> None:
    take_attempt(tmp_path, FIRST).stop()
    began = time.monotonic()
    take_attempt(tmp_path, SECOND).stop()
    assert time.monotonic() - began >= FIRST.seconds
    assert newest_attempt(tmp_path)[1].procedure == "restore-2"  # type: ignore[union-attr]


def test_clocks_of_day_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = take_attempt(tmp_path, dataclasses.replace(FIRST, since="1999-01-01T00:00:00Z"))
    os.utime(tmp_path / "restoring/1", (0, 0))
    monkeypatch.setattr(time, "time", lambda: pytest.fail("the time of day was asked"))
    with pytest.raises(BusyError):
        take_attempt(tmp_path, SECOND)
    held.stop()


def test_after_the_end_the_next_does_not_wait(tmp_path: Path) -> None:
    take_attempt(tmp_path, FIRST).stop()
    release_attempt(tmp_path, "restore-2")
    assert not newest_attempt(tmp_path)[1].released  # type: ignore[union-attr]
    release_attempt(tmp_path, "restore-1")
    began = time.monotonic()
    take_attempt(tmp_path, SECOND).stop()
    assert time.monotonic() - began < FIRST.seconds


def test_the_same_procedure_goes_on_after_a_crash(tmp_path: Path) -> None:
    take_attempt(tmp_path, FIRST).stop()
    take_attempt(tmp_path, FIRST).stop()
    assert newest_attempt(tmp_path)[0] == 2


def test_of_many_who_find_the_same_dead_one_wins(tmp_path: Path) -> None:
    take_attempt(tmp_path, FIRST).stop()
    won: list[Held] = []

    def take(number: int) -> None:
        try:
            won.append(
                take_attempt(tmp_path, dataclasses.replace(SECOND, procedure=f"restore-{number}"))
            )
        except BusyError:
            return

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(take, range(2, 8)))
    for held in won:
        held.stop()
    assert len(won) == 1
    assert list(tmp_path.glob("restoring/.attempt-*")) == []
