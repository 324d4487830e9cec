"""Restores from a store that several hosts see."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuguard.model.errors import GpuguardError, RefusedError, UnreachableError
from gpuguard.model.jobs import Job, JobState
from gpuguard.model.operations import OperationState
from gpuguard.planning.requests import RestoreRequest
from gpuguard.planning.views import EpochHolder
from gpuguard.running.restore import bring_back, prepare
from tests.unit.planning.sights import manifest
from tests.unit.running.desks import desk_of, running_job, saved
from tests.unit.running.nodes import Node, Script


def fleet(target: Script | None = None) -> list[Node]:
    lost = dataclasses.replace(running_job(), state=JobState.LOST)
    nodes = [Node("gpu001", None, [lost]), Node("gpu002", target)]
    nodes[0].info["memory_available"] = 3 << 30
    for node in nodes:
        node.checkpoints = [saved()]
        node.manifest = manifest().to_dict()
    return nodes


def test_the_job_comes_back_where_it_fits(tmp_path: Path) -> None:
    nodes = fleet()
    desk, _ = desk_of(tmp_path, nodes)
    brought = bring_back(desk, prepare(desk, RestoreRequest("llm")))
    assert (brought.host, brought.checkpoint) == ("gpu002", saved().checkpoint)
    request = next(iter(nodes[1].procedures.values())).request
    assert request["params"]["proof"]["kind"] == "gone"
    assert request["params"]["hold"] is False
    assert request["params"]["policy"]["store"] == "/srv/gpuguard"


@pytest.mark.parametrize("point", ["start", "preflight", "verify", "restore"])
def test_a_lost_link_changes_nothing(tmp_path: Path, point: str) -> None:
    nodes = fleet(Script(lose={point}))
    desk, _ = desk_of(tmp_path, nodes)
    bring_back(desk, prepare(desk, RestoreRequest("llm")))
    assert nodes[1].log.count("go") == 1


@pytest.mark.parametrize("step", ["preflight", "fence", "verify", "files", "restore"])
def test_a_failed_step_is_the_error_and_is_journalled(tmp_path: Path, step: str) -> None:
    desk, _ = desk_of(tmp_path, fleet(Script(fail_at=step)))
    with pytest.raises(GpuguardError, match=f"gpu002: restore, step {step}: it broke"):
        bring_back(desk, prepare(desk, RestoreRequest("llm")))
    kept = desk.operations.list()[0]
    assert kept.state is OperationState.FAILED
    assert kept.error is not None and kept.error["hint"] == "mend it"


def test_a_silent_holder_is_refused_before_anything_is_begun(tmp_path: Path) -> None:
    nodes = fleet()
    nodes[0].dead = True
    desk, _ = desk_of(tmp_path, nodes)
    plan = prepare(desk, RestoreRequest("llm"))
    with pytest.raises(RefusedError, match="unreachable is not dead"):
        bring_back(desk, plan)
    assert nodes[1].procedures == {}
    assert bring_back(desk, prepare(desk, RestoreRequest("llm", assume_dead="gpu001")))


class SeenLater(list[Job]):
    """Jobs of a node that claims one between the first look at it and the second."""

    looks = 0

    def __iter__(self) -> Iterator[Job]:
        self.looks += 1
        return super().__iter__() if self.looks > 1 else iter(())


def test_a_restore_that_claims_while_we_look_is_seen_not_taken_for_lost(tmp_path: Path) -> None:
    nodes = fleet()
    nodes[1].jobs = SeenLater([running_job(epoch=2, boot_id="boot-of-gpu002")])
    for node in nodes:
        node.epoch = EpochHolder(2, "gpu002", "u-1", "2026-01-31T12:01:00Z").to_dict()
    desk, _ = desk_of(tmp_path, nodes)
    plan = prepare(desk, RestoreRequest("llm"))
    (finding,) = [item for item in plan.findings if item.code in ("still-alive", "no-proof")]
    assert finding.code == "still-alive"
    assert "--assume-dead" not in (finding.remedy or "")


def test_a_fleet_that_is_silent_is_unreachable_not_empty(tmp_path: Path) -> None:
    nodes = fleet()
    for node in nodes:
        node.dead = True
    desk, _ = desk_of(tmp_path, nodes)
    with pytest.raises(UnreachableError):
        prepare(desk, RestoreRequest("llm"))


def test_ctrl_c_leaves_the_restore_to_its_host_and_says_so(tmp_path: Path) -> None:
    nodes = fleet(Script(interrupt_at="verify"))
    desk, heard = desk_of(tmp_path, nodes)
    with pytest.raises(KeyboardInterrupt):
        bring_back(desk, prepare(desk, RestoreRequest("llm")))
    assert [p.host for p in heard if p.state == "left"] == ["gpu002"]
    assert desk.operations.list()[0].state is OperationState.INTERRUPTED


def test_an_unreadable_manifest_is_named(tmp_path: Path) -> None:
    nodes = fleet()
    for node in nodes:
        node.manifest = None
    desk, _ = desk_of(tmp_path, nodes)
    with pytest.raises(GpuguardError, match="manifest of 20260131T120000Z-aaaaaa is unreadable"):
        prepare(desk, RestoreRequest("llm"))
