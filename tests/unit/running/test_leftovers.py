"""Moves whose operator was killed in the middle are ended by the next command."""

from pathlib import Path
from typing import Any

import pytest

from gpuguard.model.operations import OperationState
from gpuguard.model.plans import Plan
from gpuguard.planning.requests import CheckpointRequest, MigrateRequest
from gpuguard.running import migrate
from gpuguard.running.checkpoint import prepare
from gpuguard.running.desk import Desk
from tests.unit.running.desks import desk_of, running_job
from tests.unit.running.nodes import Node, Script


class Killed(BaseException):
    """Stands for kill -9: nothing after it runs."""


def killed_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> tuple[Desk, Node, Node, Plan]:
    source, target = Node("gpu001", None, [running_job()]), Node("gpu002", Script())
    desk, _ = desk_of(tmp_path, [source, target])
    plan = migrate.prepare(desk, MigrateRequest("llm"))
    log = desk.operations.begin(plan, "me@here")
    move = migrate.Move(desk, log, plan)

    def die(*args: Any) -> None:
        raise Killed

    monkeypatch.setattr(move, at, die)
    monkeypatch.setattr(move, "_unwind", die)
    with pytest.raises(Killed):
        if at == "_bring":
            move._hold(move.source)
            raise Killed
        if at == "_go":
            move._hold(move.source)
            move._hold(move.target)
            move._give_away()
            raise Killed
        move.run()
    monkeypatch.setattr("gpuguard.state.operations.start_time", lambda pid: None)
    return desk, source, target, plan


@pytest.fixture(autouse=True)
def _no_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_bring", "_go"):
        monkeypatch.setattr(migrate.Move, name, None, raising=False)


def test_a_source_that_waits_goes_on_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, source, _, plan = killed_move(tmp_path, monkeypatch, "_bring")
    prepare(desk, CheckpointRequest(("llm",)))
    assert source.log[-2:] == ["undone", "told discard"]
    assert desk.operations.show(plan.id).state is OperationState.FAILED


def test_both_copies_that_wait_end_with_the_source_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, source, target, _ = killed_move(tmp_path, monkeypatch, "_give_away")
    prepare(desk, CheckpointRequest(("llm",)))
    assert target.log[-2:] == ["undone", "told discard"]
    assert source.log[-2:] == ["undone", "told discard"]


def test_a_job_that_was_given_away_goes_on_at_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, _, target, plan = killed_move(tmp_path, monkeypatch, "_go")
    prepare(desk, CheckpointRequest(("llm",)))
    assert target.log[-4:] == ["claim", "go", "prove", "told go"]
    assert desk.operations.show(plan.id).state is OperationState.DONE


def test_a_look_alone_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, source, _, plan = killed_move(tmp_path, monkeypatch, "_bring")
    prepare(desk, CheckpointRequest(("llm",)), settle=False)
    assert "undone" not in source.log
    assert desk.operations.show(plan.id).state is OperationState.ABANDONED


def test_a_silent_host_leaves_it_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, source, target, plan = killed_move(tmp_path, monkeypatch, "_bring")
    target.dead = True
    prepare(desk, CheckpointRequest(("llm",)))
    assert "undone" not in source.log
    assert desk.operations.show(plan.id).state is OperationState.ABANDONED
