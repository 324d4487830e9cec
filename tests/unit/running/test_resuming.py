"""An operation whose process was killed is carried on or taken back from where its hosts stand."""

from pathlib import Path

import pytest

from gpuguard.model.errors import BusyError, RefusedError, UnreachableError
from gpuguard.model.operations import OperationState
from gpuguard.model.plans import Plan
from gpuguard.planning.requests import CheckpointRequest, MigrateRequest
from gpuguard.running import checkpoint, migrate
from gpuguard.running.desk import Desk
from gpuguard.running.open_ends import open_ends
from gpuguard.running.resuming import abort, resume
from tests.unit.running.desks import desk_of, running_job
from tests.unit.running.nodes import Node, Script

STAGES = ("nothing", "source holds", "both hold", "given away")


def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> tuple[Desk, Plan]:
    """Return a desk and the plan of a move whose process died at `stage`."""
    desk, _ = desk_of(tmp_path, [Node("gpu001", None, [running_job()]), Node("gpu002", Script())])
    plan = migrate.prepare(desk, MigrateRequest("llm"))
    move = migrate.Move(desk, desk.operations.begin(plan, "me@here"), plan)
    if stage != "nothing":
        move._hold(move.source)
    if stage in ("both hold", "given away"):
        move._hold(move.target)
    if stage == "given away":
        move._give_away()
    monkeypatch.setattr("gpuguard.state.operations.start_time", lambda pid: None)
    return desk, plan


def node(desk: Desk, name: str) -> Node:
    nodes: dict[str, Node] = desk.pool.nodes  # type: ignore[attr-defined]
    return nodes[name]


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_move_is_carried_on_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    desk, plan = killed(tmp_path, monkeypatch, stage)
    settled = resume(desk, plan.id)
    assert (settled.state, settled.exit_code) == (OperationState.DONE, 0)
    assert "gpu002" in settled.text
    assert node(desk, "gpu001").log[-3:] == ["give-away", "end", "told give_away"]
    assert "prove" in node(desk, "gpu002").log
    assert desk.operations.show(plan.id).state is OperationState.DONE


@pytest.mark.parametrize("stage", STAGES[1:3])
def test_a_move_is_taken_back_before_it_is_given_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    desk, plan = killed(tmp_path, monkeypatch, stage)
    settled = abort(desk, plan.id)
    assert (settled.state, settled.exit_code) == (OperationState.INTERRUPTED, 0)
    assert "goes on on gpu001" in settled.text
    assert "give-away" not in node(desk, "gpu001").log
    assert "claim" not in node(desk, "gpu002").log


def test_a_move_given_away_cannot_be_taken_back_and_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, plan = killed(tmp_path, monkeypatch, "given away")
    with pytest.raises(RefusedError, match="too late: gpu001 has given llm away"):
        abort(desk, plan.id)
    assert desk.operations.show(plan.id).state is OperationState.ABANDONED
    assert resume(desk, plan.id).state is OperationState.DONE


def test_what_no_host_has_begun_changed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, plan = killed(tmp_path, monkeypatch, "nothing")
    settled = resume(desk, plan.id)
    assert settled.exit_code == 1
    assert settled.text == "no host had begun it: nothing was changed"
    assert settled.hint == "gpuguard migrate llm"
    assert [line.rpartition(": ")[2] for line in settled.found] == ["never begun", "never begun"]


def test_a_silent_host_is_named_and_nothing_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, plan = killed(tmp_path, monkeypatch, "both hold")
    node(desk, "gpu002").dead = True
    with pytest.raises(UnreachableError, match="gpu002"):
        resume(desk, plan.id)
    assert desk.operations.show(plan.id).state is OperationState.ABANDONED


def test_one_at_work_is_left_alone(tmp_path: Path) -> None:
    desk, _ = desk_of(tmp_path, [Node("gpu001", None, [running_job()])])
    plan = checkpoint.prepare(desk, CheckpointRequest(("llm",)))
    desk.operations.begin(plan, "me@here")
    with pytest.raises(BusyError, match="at work"):
        resume(desk, plan.id)


def test_a_checkpoint_that_ended_alone_is_told_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, _ = desk_of(tmp_path, [Node("gpu001", None, [running_job()])])
    plan = checkpoint.prepare(desk, CheckpointRequest(("llm",)))
    log = desk.operations.begin(plan, "me@here")
    checkpoint._one(desk, log, plan, 0)
    monkeypatch.setattr("gpuguard.state.operations.start_time", lambda pid: None)
    ends, errors = open_ends(desk)
    assert [end.hint for end in ends] == [f"gpuguard ops resume {plan.id}"]
    assert errors == []
    assert resume(desk, plan.id).state is OperationState.DONE
    assert open_ends(desk)[0] == []


def test_an_unsettled_procedure_is_open_until_something_later_is_good(tmp_path: Path) -> None:
    bad = Node("gpu001", Script(unsettled_at="dump"), [running_job()])
    desk, _ = desk_of(tmp_path, [bad])
    results = checkpoint.save(desk, checkpoint.prepare(desk, CheckpointRequest(("llm",))))
    assert results[0].error is not None
    (end,) = open_ends(desk)[0]
    assert (end.host, end.job, end.state, end.hint) == ("gpu001", "llm", "unsettled", "mend it")
