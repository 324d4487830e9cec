"""Old records of procedures go, young and unsettled ones stay."""

import os
import time
from pathlib import Path

import pytest

from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures import records, retention
from gpuguard.model.procedures import ProcedureRequest, ProcedureState


def make(paths: NodePaths, name: str, state: ProcedureState | None, days: float) -> Path:
    folder = paths.procedure(name)
    request = ProcedureRequest(name, "practice", {})
    assert records.write_request(folder, request)
    if state is not None:
        records.write_result(folder, records.status_of(folder, request, state))
    then = time.time() - days * 86400
    os.utime(folder / "request.json", (then, then))
    return folder


def test_only_what_is_old_settled_and_beyond_the_newest_goes(
    paths: NodePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "KEEP_NEWEST", 2)
    old = make(paths, "old", ProcedureState.DONE, 30)
    failed = make(paths, "failed", ProcedureState.FAILED, 29)
    unsettled = make(paths, "unsettled", ProcedureState.UNSETTLED, 28)
    unfinished = make(paths, "unfinished", None, 27)
    young = make(paths, "young", ProcedureState.DONE, 1)
    newest = [make(paths, f"n{n}", ProcedureState.DONE, 0.5 - n / 10) for n in range(2)]
    retention.prune_procedures(paths)
    assert not old.exists() and not failed.exists()
    assert all(folder.exists() for folder in (unsettled, unfinished, young, *newest))


def test_request_is_written_once(paths: NodePaths) -> None:
    folder = make(paths, "p1", None, 0)
    assert not records.write_request(folder, ProcedureRequest("p1", "other", {}))
    assert records.read_request(folder).kind == "practice"
