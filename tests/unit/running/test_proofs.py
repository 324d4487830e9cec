"""Proofs from outside: the lease watched on our own clock, and the scheduler."""

import dataclasses
from pathlib import Path

import pytest

from gpuguard.model.errors import RefusedError
from gpuguard.model.inventory import Host
from gpuguard.planning.requests import RestoreRequest
from gpuguard.running.power import look_at_power, switch_off
from gpuguard.running.restore import bring_back, prepare
from tests.unit.running.desks import proof_of, silent_fleet
from tests.unit.running.nodes import Stopwatch

LEASE = {"epoch": 1, "host": "gpu001", "seconds": 30.0, "counter": 5}


def test_without_a_command_nothing_is_asked() -> None:
    bare = Host("gpu001", "gpu001")
    assert look_at_power(bare) is None
    with pytest.raises(RefusedError):
        switch_off(bare, Stopwatch())


def test_a_lease_that_stands_still_for_its_term_is_proof(tmp_path: Path) -> None:
    nodes, desk = silent_fleet(tmp_path)
    nodes[1].lease = dict(LEASE)
    plan = prepare(desk, RestoreRequest("llm"))
    assert desk.clock.monotonic() >= LEASE["seconds"]  # type: ignore[operator]
    bring_back(desk, plan)
    assert proof_of(nodes)["kind"] == "lease"


def test_a_lease_that_moves_is_life(tmp_path: Path) -> None:
    nodes, desk = silent_fleet(tmp_path)
    nodes[1].lease, nodes[1].renews = dict(LEASE), True
    plan = prepare(desk, RestoreRequest("llm"))
    assert plan.refused
    assert "renews its lease" in plan.findings[0].text


def test_a_lease_of_another_epoch_proves_nothing(tmp_path: Path) -> None:
    nodes, desk = silent_fleet(tmp_path)
    nodes[1].lease = {**LEASE, "epoch": 2}
    assert prepare(desk, RestoreRequest("llm")).refused


def test_a_dry_run_does_not_wait(tmp_path: Path) -> None:
    nodes, desk = silent_fleet(tmp_path)
    nodes[1].lease = dict(LEASE)
    plan = prepare(desk, RestoreRequest("llm"), settle=False)
    assert desk.clock.monotonic() == 0
    assert plan.refused
    assert "its lease of 30 s was watched for 0 s only" in plan.findings[0].text


def test_the_schedulers_word_is_proof(tmp_path: Path) -> None:
    class Slurm:
        name = "slurm"

        def gone(self, host: str, job: str) -> str | None:
            return f"slurm has powered {host} off"

    nodes, desk = silent_fleet(tmp_path)
    desk = dataclasses.replace(desk, scheduler=Slurm())
    bring_back(desk, prepare(desk, RestoreRequest("llm")))
    assert proof_of(nodes)["text"] == "slurm has powered gpu001 off"
