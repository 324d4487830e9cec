"""Partials of dead procedures go by rule; the one being written, and young ones, stay."""

import os
import time
from pathlib import Path

from gpuguard.agent.partials import OLD_SECONDS, remove_old_partials

OURS, DEAD, YOUNG = (f"20260131T12043{n}Z-1a2b3c" for n in range(3))


def partial(folder: Path, checkpoint: str, age: float) -> Path:
    made = folder / f".partial-{checkpoint}"
    (made / "images").mkdir(parents=True)
    (made / "images" / "pages-1.img").write_bytes(b"x")
    when = time.time() - age
    for path in (made / "images" / "pages-1.img", made / "images", made):
        os.utime(path, (when, when))
    return made


def test_only_old_ones_of_others_go(tmp_path: Path) -> None:
    ours = partial(tmp_path, OURS, 2 * OLD_SECONDS)
    dead = partial(tmp_path, DEAD, 2 * OLD_SECONDS)
    young = partial(tmp_path, YOUNG, OLD_SECONDS / 2)
    whole = tmp_path / DEAD
    whole.mkdir()
    told = remove_old_partials(tmp_path, OURS, time.time())
    assert told == [f"removed the partial checkpoint {DEAD}: nobody was writing it"]
    assert not dead.exists()
    assert ours.exists()
    assert young.exists()
    assert whole.exists()


def test_one_file_written_lately_keeps_the_whole(tmp_path: Path) -> None:
    made = partial(tmp_path, DEAD, 2 * OLD_SECONDS)
    os.utime(made / "images" / "pages-1.img")
    assert remove_old_partials(tmp_path, OURS, time.time()) == []
    assert made.exists()


def test_a_clock_that_went_back_removes_nothing(tmp_path: Path) -> None:
    made = partial(tmp_path, DEAD, 0)
    assert remove_old_partials(tmp_path, OURS, time.time() - 10 * OLD_SECONDS) == []
    assert made.exists()


def test_other_folders_are_not_ours_to_remove(tmp_path: Path) -> None:
    other = tmp_path / ".partial-notes"
    other.mkdir()
    os.utime(other, (0, 0))
    assert remove_old_partials(tmp_path, OURS, time.time()) == []
    assert other.exists()
