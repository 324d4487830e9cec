"""Files on the target: changed, and put back exactly as found, also from the middle."""

import os
import stat
from pathlib import Path

import pytest

from gpuguard.agent.restoring.target_files import (
    Change,
    apply_change,
    look_at,
    plan_change,
    plan_folders,
    undo_change,
)
from gpuguard.checkpoint.file_decisions import decide_file
from gpuguard.model.manifests import OpenFile

CHECKPOINT = "20261129T160000Z-abcdef"
CAPTURED = b"step 1\nstep 2\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "checkpoint/files").mkdir(parents=True)
    (tmp_path / "checkpoint/files/0000").write_bytes(CAPTURED)
    return tmp_path / "checkpoint"


def wanted(path: Path, mode: int = 0o640) -> OpenFile:
    return OpenFile(
        str(path),
        len(CAPTURED),
        stat.S_IFREG | mode,
        writable=True,
        append=False,
        captured="files/0000",
        uid=os.getuid(),
        gid=os.getgid(),
    )


def plan(path: Path, source: Path) -> list[Change]:
    item = wanted(path)
    decision = decide_file(item, look_at(item, source / "files/0000"))
    change = plan_change(item, decision, CHECKPOINT)
    return plan_folders([str(path.parent)]) + ([change] if change else [])


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


FOUND = {
    "missing": None,
    "grown": CAPTURED + b"step 3\n",
    "shorter": b"step 1\n",
    "another": b"other content, and longer than that",
    "equal": CAPTURED,
    "empty": b"",
}


@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND)
def test_the_file_becomes_what_it_was_and_goes_back(
    tmp_path: Path, source: Path, found: "bytes | None"
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    path = here / "deep/er/log" if found is None else here / "log"
    if found is not None:
        path.write_bytes(found)
        path.chmod(0o604)
    before = snapshot(here)
    changes = plan(path, source)
    for change in changes:
        apply_change(change, source)
    assert path.read_bytes() == CAPTURED
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    for change in reversed(changes):
        undo_change(change)
    assert snapshot(here) == before
    for change in reversed(changes):
        undo_change(change)  # a second undo, as after a crash in the first
    assert snapshot(here) == before


def test_the_tail_that_is_cut_off_is_kept(tmp_path: Path, source: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(CAPTURED + b"step 3\n")
    for change in plan(path, source):
        apply_change(change, source)
    assert Path(f"{path}.gpuguard-{CHECKPOINT}").read_bytes() == b"step 3\n"


def test_a_second_restore_does_not_write_over_the_first_tail(tmp_path: Path, source: Path) -> None:
    path = tmp_path / "log"
    for tail in (b"first", b"second"):
        path.write_bytes(CAPTURED + tail)
        for change in plan(path, source):
            apply_change(change, source)
    kept = Path(f"{path}.gpuguard-{CHECKPOINT}")
    assert kept.read_bytes() == b"first"
    assert kept.with_name(kept.name + ".2").read_bytes() == b"second"


@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND)
def test_a_change_written_down_but_never_made_is_taken_back_too(
    tmp_path: Path, source: Path, found: "bytes | None"
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    path = here / "a/log" if found is None else here / "log"
    if found is not None:
        path.write_bytes(found)
    before = snapshot(here)
    for change in reversed(plan(path, source)):
        undo_change(change)
    assert snapshot(here) == before


def test_a_crash_between_tail_and_cut_loses_nothing(tmp_path: Path, source: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(CAPTURED + b"step 3\n")
    before = snapshot(tmp_path)
    changes = plan(path, source)
    Path(str(changes[-1]["aside"])).write_bytes(b"step 3\n")  # written, not yet cut
    for change in reversed(changes):
        undo_change(change)
    assert snapshot(tmp_path) == before
