"""The handover: at no point of failure are there two live copies, or none without a way out."""

import dataclasses
from pathlib import Path

import pytest

from gpuguard.model.errors import GpuguardError, RefusedError, UnreachableError
from gpuguard.model.jobs import JobState
from gpuguard.model.operations import OperationState
from gpuguard.model.plans import Plan
from gpuguard.planning.requests import MigrateRequest
from gpuguard.planning.views import PowerSight
from gpuguard.running import following
from gpuguard.running.desk import Desk
from gpuguard.running.migrate import move, prepare
from tests.unit.running.desks import busy, desk_of, running_job
from tests.unit.running.nodes import Node, Script

SAVED = ["preflight", "dump", "copy", "publish"]
BROUGHT = ["preflight", "fence", "verify", "files", "restore"]


def fleet(source: Script | None = None, target: Script | None = None) -> tuple[Node, Node]:
    return Node("gpu001", source, [running_job()]), Node("gpu002", target)


def ready(tmp_path: Path, *nodes: Node) -> tuple[Desk, Plan]:
    desk, _ = desk_of(tmp_path, list(nodes))
    return desk, prepare(desk, MigrateRequest("llm"))


def went_on(target: Node) -> bool:
    return "go" in target.log


def given_away(source: Node) -> bool:
    return "give-away" in source.log


def test_the_source_has_ended_before_the_target_goes_on(tmp_path: Path) -> None:
    source, target = fleet()
    desk, plan = ready(tmp_path, source, target)
    moved = move(desk, plan)
    assert (moved.source, moved.host) == ("gpu001", "gpu002")
    assert source.log == [*SAVED, "give_away", "give-away", "end", "told give_away"]
    assert target.log == [*BROUGHT, "go", "claim", "go", "prove", "told go"]
    steps = desk.operations.show(plan.id).steps
    ended = next(s.seq for s in steps if s.host == "gpu001" and s.step == "end")
    told = next(s.seq for s in steps if s.host == "gpu002" and s.state == "told")
    assert ended < told
    assert desk.operations.show(plan.id).state is OperationState.DONE


def test_a_copy_below_the_stores_epoch_is_not_moved(tmp_path: Path) -> None:
    source, target = fleet()
    record = {"epoch": 7, "host": "gpu003", "uid": "u-1", "at": "2026-01-31T12:00:00Z"}
    source.epoch = target.epoch = record
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(RefusedError, match="outdated: gpu003 holds epoch 7 since 2026-01-31"):
        move(desk, plan)
    assert source.procedures == {}


@pytest.mark.parametrize("step", SAVED)
def test_a_source_that_fails_starts_nothing_elsewhere(tmp_path: Path, step: str) -> None:
    source, target = fleet(source=Script(fail_at=step))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(GpuguardError, match="goes on on gpu001 as before"):
        move(desk, plan)
    assert target.procedures == {}
    assert source.log[-1] == "undone"


@pytest.mark.parametrize("step", BROUGHT)
def test_a_target_that_fails_lets_the_source_go_on(tmp_path: Path, step: str) -> None:
    source, target = fleet(target=Script(fail_at=step))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(GpuguardError, match=f"gpu002: restore, step {step}: it broke") as caught:
        move(desk, plan)
    assert "goes on on gpu001 as before" in caught.value.message
    assert source.log == [*SAVED, "discard", "undone", "told discard"]
    assert not given_away(source)
    assert not went_on(target)
    assert desk.operations.show(plan.id).state is OperationState.FAILED


def test_a_busy_source_is_left_alone(tmp_path: Path) -> None:
    source, target = fleet(source=Script(refuse_start=busy()))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(GpuguardError) as caught:
        move(desk, plan)
    assert caught.value.exit_code == 75
    assert source.procedures == target.procedures == {}


def test_a_busy_target_lets_the_source_go_on(tmp_path: Path) -> None:
    source, target = fleet(target=Script(refuse_start=busy()))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(GpuguardError):
        move(desk, plan)
    assert source.log[-2:] == ["undone", "told discard"]


POINTS = [
    *(("source", point) for point in ["start", *SAVED, "give_away", "give-away", "end"]),
    *(("target", point) for point in ["start", *BROUGHT, "go", "claim", "prove"]),
]


@pytest.mark.parametrize(("side", "point"), POINTS)
def test_a_lost_link_that_comes_back_changes_nothing(tmp_path: Path, side: str, point: str) -> None:
    script = Script(lose={point})
    source, target = fleet(**{side: script})
    desk, plan = ready(tmp_path, source, target)
    moved = move(desk, plan)
    assert moved.host == "gpu002"
    assert not script.lose  # the cut did happen
    assert source.log == [*SAVED, "give_away", "give-away", "end", "told give_away"]
    assert target.log == [*BROUGHT, "go", "claim", "go", "prove", "told go"]


@pytest.mark.parametrize("point", ["start", *BROUGHT])
def test_a_target_that_dies_early_lets_the_source_go_on(tmp_path: Path, point: str) -> None:
    source, target = fleet(target=Script(die_after=point))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(UnreachableError, match="goes on on gpu001 as before"):
        move(desk, plan)
    assert source.log[-2:] == ["undone", "told discard"]
    assert not given_away(source)
    assert not went_on(target)


def power_off(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the power command of the host `name`, and of no other, say off."""
    sights = {name: PowerSight("off")}
    monkeypatch.setattr(following, "look_at_power", lambda host: sights.get(host.name))


@pytest.mark.parametrize("point", BROUGHT)
def test_a_target_that_is_off_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    power_off(monkeypatch, "gpu002")
    source, target = fleet(target=Script(die_after=point))
    desk, plan = ready(tmp_path, source, target)
    began = desk.clock.monotonic()
    with pytest.raises(UnreachableError) as caught:
        move(desk, plan)
    assert desk.clock.monotonic() - began < 1.0
    said = caught.value.message
    assert f"lost during step {point} of the move's restore on gpu002: the power command" in said
    assert said.endswith("llm goes on on gpu001 as before")
    assert plan.id not in said
    assert source.log[-2:] == ["undone", "told discard"]


@pytest.mark.parametrize("point", SAVED)
def test_a_source_that_is_off_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    power_off(monkeypatch, "gpu001")
    source, target = fleet(source=Script(die_after=point))
    desk, plan = ready(tmp_path, source, target)
    began = desk.clock.monotonic()
    with pytest.raises(UnreachableError) as caught:
        move(desk, plan)
    assert desk.clock.monotonic() - began < 1.0
    assert caught.value.message.endswith("says that gpu001 is off; what ran there is gone")
    assert caught.value.hint == "gpuguard restore llm"
    assert target.procedures == {}


def test_a_silent_host_whose_power_is_not_known_to_be_off_is_waited_for(tmp_path: Path) -> None:
    source, target = fleet(target=Script(die_after="restore"))
    desk, heard = desk_of(tmp_path, [source, target])
    desk = dataclasses.replace(desk, patience=100.0)
    plan = prepare(desk, MigrateRequest("llm"))
    with pytest.raises(UnreachableError, match="not back within 100 s"):
        move(desk, plan)
    told = [item.text for item in heard if item.host == "gpu002" and item.state == "wait"]
    assert len(told) == 3
    assert told[0].startswith("not back yet; waited for 3")
    assert told[0].endswith("of 100 s")
    assert any("it is waited for, up to 100 s" in item.text for item in heard)


@pytest.mark.parametrize("point", ["start", *SAVED])
def test_a_source_that_dies_early_never_makes_a_second_copy(tmp_path: Path, point: str) -> None:
    source, target = fleet(source=Script(die_after=point))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(UnreachableError, match="gpu001") as caught:
        move(desk, plan)
    assert "lets the job go on by itself" in caught.value.message
    assert target.procedures == {}


@pytest.mark.parametrize("point", ["give_away", "give-away", "end"])
def test_without_the_sources_word_the_target_does_not_go_on(tmp_path: Path, point: str) -> None:
    source, target = fleet(source=Script(die_after=point))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(UnreachableError, match="not known whether it gave llm away") as caught:
        move(desk, plan)
    assert caught.value.hint == "when gpu001 answers: gpuguard restore llm"
    assert not went_on(target)


def test_a_source_that_gave_away_but_kept_its_copy_stops_the_target(tmp_path: Path) -> None:
    source, target = fleet(source=Script(fail_at="end"))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(GpuguardError, match="NOT UNDONE"):
        move(desk, plan)
    assert not went_on(target)
    assert target.log[-2:] == ["undone", "told discard"]


def test_a_source_whose_time_was_up_goes_on_and_the_target_is_discarded(tmp_path: Path) -> None:
    source, target = fleet(source=Script(hold_over=True))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(RefusedError, match="goes on on gpu001 as before"):
        move(desk, plan)
    assert not given_away(source)
    assert not went_on(target)
    assert target.log[-2:] == ["undone", "told discard"]


@pytest.mark.parametrize("point", ["go", "claim"])
def test_a_target_lost_after_the_handover_names_the_way_out(tmp_path: Path, point: str) -> None:
    source, target = fleet(target=Script(die_after=point))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(UnreachableError, match="has given llm away") as caught:
        move(desk, plan)
    assert caught.value.hint == "gpuguard restore llm"
    assert "durable" in caught.value.message


@pytest.mark.parametrize("step", ["claim", "go", "prove"])
def test_a_target_that_fails_after_the_handover_names_the_way_out(
    tmp_path: Path, step: str
) -> None:
    source, target = fleet(target=Script(fail_at=step))
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(GpuguardError, match="has given llm away") as caught:
        move(desk, plan)
    assert caught.value.hint == "gpuguard restore llm"


@pytest.mark.parametrize(
    ("side", "step"), [*(("source", s) for s in SAVED), *(("target", s) for s in BROUGHT)]
)
def test_ctrl_c_before_the_handover_puts_everything_back(
    tmp_path: Path, side: str, step: str
) -> None:
    source, target = fleet(**{side: Script(interrupt_at=step)})
    desk, plan = ready(tmp_path, source, target)
    with pytest.raises(KeyboardInterrupt):
        move(desk, plan)
    assert source.log[-2:] == ["undone", "told discard"]
    assert all(run.state == "failed" for run in target.procedures.values())
    assert desk.operations.show(plan.id).state is OperationState.INTERRUPTED


def test_a_source_that_lost_the_job_is_not_said_to_go_on(tmp_path: Path) -> None:
    source = Node("gpu001", Script(fail_at="dump"), [running_job()])
    desk, _ = desk_of(tmp_path, [source, Node("gpu002")])
    plan = prepare(desk, MigrateRequest("llm"))
    source.jobs = [dataclasses.replace(running_job(), state=JobState.LOST)]
    with pytest.raises(GpuguardError, match="on gpu001 llm is lost") as caught:
        move(desk, plan)
    assert caught.value.hint == "gpuguard restore llm"
