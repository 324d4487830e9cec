"""Checkpoints over links that are lost, nodes that fail, and many jobs at once."""

from pathlib import Path

import pytest

from gpuguard.model.errors import UsageError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.jobs import JobPolicy
from gpuguard.model.operations import OperationState
from gpuguard.planning.requests import CheckpointRequest
from gpuguard.running.checkpoint import exit_code, prepare, save
from tests.unit.running.desks import busy, desk_of, running_job
from tests.unit.running.nodes import Node, Script


def fleet(script: Script) -> list[Node]:
    return [Node("gpu001", script, [running_job()]), Node("gpu002")]


def test_a_checkpoint_reports_each_step_and_is_journalled(tmp_path: Path) -> None:
    desk, heard = desk_of(tmp_path, fleet(Script()))
    results = save(desk, prepare(desk, CheckpointRequest(("llm",))))
    assert exit_code(results) is ExitCode.OK
    assert results[0].info == {"checkpoint": results[0].checkpoint}
    done = [(p.step, p.seconds) for p in heard if p.state == "done"]
    assert [step for step, _ in done] == ["preflight", "dump", "copy", "publish"]
    assert all(length == pytest.approx(0.1) for _, length in done)
    kept = desk.operations.show(desk.operations.list()[0].id)
    assert kept.state is OperationState.DONE
    assert "publish" in [step.step for step in kept.steps]


@pytest.mark.parametrize("point", ["start", "preflight", "dump", "copy", "publish"])
def test_a_lost_link_changes_nothing(tmp_path: Path, point: str) -> None:
    nodes = fleet(Script(lose={point}))
    desk, heard = desk_of(tmp_path, nodes)
    results = save(desk, prepare(desk, CheckpointRequest(("llm",))))
    assert exit_code(results) is ExitCode.OK
    assert [p.state for p in heard if p.state in ("lost", "back")] == ["lost", "back"]
    assert nodes[0].log == ["preflight", "dump", "copy", "publish"]  # nothing was done twice
    done = [p.step for p in heard if p.state == "done"]
    assert done == ["preflight", "dump", "copy", "publish"]  # nothing was reported twice


def test_a_store_named_after_the_job_was_started_is_sent_with_the_request(tmp_path: Path) -> None:
    job = running_job(policy=JobPolicy(store=None))
    nodes = [Node("gpu001", jobs=[job])]
    desk, _ = desk_of(tmp_path, nodes)
    save(desk, prepare(desk, CheckpointRequest(("llm",))))
    (run,) = nodes[0].procedures.values()
    assert run.request["params"]["store"] == "/srv/gpuguard"


@pytest.mark.parametrize("point", ["start", "dump", "publish"])
def test_a_host_that_stays_silent_is_named_with_the_step(tmp_path: Path, point: str) -> None:
    desk, _ = desk_of(tmp_path, fleet(Script(die_after=point)))
    results = save(desk, prepare(desk, CheckpointRequest(("llm",))))
    assert exit_code(results) is ExitCode.UNREACHABLE
    error = results[0].error or {}
    assert error["message"].startswith(f"gpu001: lost during step {point}")
    assert "gpuguard jobs show llm" in error["hint"]


@pytest.mark.parametrize("step", ["preflight", "dump", "copy", "publish"])
def test_a_failed_step_is_the_error(tmp_path: Path, step: str) -> None:
    desk, heard = desk_of(tmp_path, fleet(Script(fail_at=step)))
    results = save(desk, prepare(desk, CheckpointRequest(("llm",))))
    assert exit_code(results) is ExitCode.FAILED
    assert (results[0].error or {})["message"] == f"gpu001: checkpoint, step {step}: it broke"
    assert "undone" in [p.state for p in heard]


def test_what_could_not_be_undone_is_said_loudly(tmp_path: Path) -> None:
    desk, _ = desk_of(tmp_path, fleet(Script(unsettled_at="dump")))
    results = save(desk, prepare(desk, CheckpointRequest(("llm",))))
    assert "NOT UNDONE" in (results[0].error or {})["message"]


def test_a_held_job_is_busy(tmp_path: Path) -> None:
    desk, _ = desk_of(tmp_path, fleet(Script(refuse_start=busy())))
    results = save(desk, prepare(desk, CheckpointRequest(("llm",))))
    assert exit_code(results) is ExitCode.BUSY


def test_partly_failed_is_partial(tmp_path: Path) -> None:
    nodes = [
        Node("gpu001", Script(fail_at="dump"), [running_job()]),
        Node("gpu002", None, [running_job("eval")]),
    ]
    desk, _ = desk_of(tmp_path, nodes)
    results = save(desk, prepare(desk, CheckpointRequest(("llm", "eval"))))
    assert [result.error is None for result in results] == [False, True]
    assert exit_code(results) is ExitCode.PARTIAL
    assert desk.operations.list()[0].state is OperationState.PARTIAL


def test_an_unknown_job_is_refused_before_anything_is_begun(tmp_path: Path) -> None:
    nodes = fleet(Script())
    desk, _ = desk_of(tmp_path, nodes)
    with pytest.raises(UsageError, match="lln") as caught:
        save(desk, prepare(desk, CheckpointRequest(("lln",))))
    assert caught.value.hint == "did you mean llm?"
    assert nodes[0].procedures == {}
    assert desk.operations.list() == []


def test_ctrl_c_leaves_the_checkpoint_to_its_host(tmp_path: Path) -> None:
    nodes = fleet(Script(interrupt_at="dump"))
    desk, _ = desk_of(tmp_path, nodes)
    with pytest.raises(KeyboardInterrupt):
        save(desk, prepare(desk, CheckpointRequest(("llm",))))
    assert desk.operations.list()[0].state is OperationState.INTERRUPTED
    assert nodes[0].log == ["preflight", "dump", "copy", "publish"]
