"""Partials of dead procedures go by rule; the one being written, and young ones, stay."""

import json
import os
import time
from pathlib import Path

from gpuguard.agent.paths import NodePaths
from gpuguard.agent.store.partials import OLD_SECONDS, remove_old_partials, sweep_stages

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


def staged(stages: Path, checkpoint: str, age: float) -> Path:
    made = stages / checkpoint
    (made / "images").mkdir(parents=True)
    when = time.time() - age
    for path in (made / "images", made):
        os.utime(path, (when, when))
    return made


def procedure(paths: NodePaths, checkpoint: str, state: str | None) -> None:
    folder = paths.procedure(f"save-{checkpoint.lower()}")
    folder.mkdir(parents=True)
    request = {"id": folder.name, "kind": "checkpoint", "params": {"checkpoint": checkpoint}}
    (folder / "request.json").write_text(json.dumps(request))
    if state:
        status = {"id": folder.name, "kind": "checkpoint", "state": state, "started_at": ""}
        (folder / "result.json").write_text(json.dumps(status))


def test_a_stage_goes_when_no_procedure_needs_it(tmp_path: Path) -> None:
    paths, stages = NodePaths(tmp_path), tmp_path / "stage"
    failed = staged(stages, OURS, 2 * OLD_SECONDS)
    copying = staged(stages, DEAD, 200 * OLD_SECONDS)
    unsettled = staged(stages, YOUNG, 2 * OLD_SECONDS)
    unknown = staged(stages, "20260131T120435Z-1a2b3c", 2 * OLD_SECONDS)
    fresh = staged(stages, "20260131T120436Z-1a2b3c", 0)
    procedure(paths, OURS, "failed")
    procedure(paths, DEAD, None)
    procedure(paths, YOUNG, "unsettled")
    assert len(sweep_stages(paths, stages, time.time())) == 2
    left = [path.exists() for path in (failed, copying, unsettled, unknown, fresh)]
    assert left == [False, True, True, False, True]
