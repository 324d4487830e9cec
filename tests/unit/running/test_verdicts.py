"""Plans follow what the hosts themselves say: whom they choose, what they refuse and why."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from gpuguard.checkpoint.preflight_codes import found, passed
from gpuguard.model.jobs import JobState
from gpuguard.model.plans import Level, Plan
from gpuguard.planning.requests import CheckpointRequest, MigrateRequest, RestoreRequest
from gpuguard.running import checkpoint, checkpoints, migrate, restore
from gpuguard.running.job_doctor import examine_job
from tests.unit.planning.sights import manifest
from tests.unit.running.desks import desk_of, running_job, saved
from tests.unit.running.nodes import Node

NEWER = "20260131T130000Z-bbbbbb"


def said(host: str, *codes: str) -> list[dict[str, Any]]:
    """Return a verdict with a rule that holds and what stands against the host."""
    wrong = [found(code, host, f"{code} is so") for code in codes]
    return [item.to_dict() for item in (passed("arch", host, "x86_64"), *wrong)]


def fleet(*verdicts: tuple[str, ...], live: bool = False) -> list[Node]:
    job = running_job()
    first = job if live else dataclasses.replace(job, state=JobState.LOST)
    nodes = [Node(f"gpu{n:03}", None, []) for n in range(1, len(verdicts) + 1)]
    nodes[0].jobs = [first]
    for node, codes in zip(nodes, verdicts, strict=True):
        node.checkpoints = [saved(NEWER, sequence=2), saved()]
        node.manifest = manifest().to_dict()
        node.verdict = said(node.name, *codes)
    return nodes


def errors(plan: Plan) -> dict[str, str]:
    return {item.code: item.text for item in plan.findings if item.level is Level.ERROR}


def test_a_restore_goes_where_the_host_itself_says_that_it_fits(tmp_path: Path) -> None:
    nodes = fleet(("port-taken",), ("programs-differ",), ())
    desk, _ = desk_of(tmp_path, nodes)
    plan = restore.prepare(desk, RestoreRequest("llm"))
    assert plan.params["target"] == "gpu003"
    unfit = {item.subject: item.text for item in plan.findings if item.code == "host-unfit"}
    assert unfit == {"gpu001": "port-taken is so", "gpu002": "programs-differ is so"}
    asked = nodes[2].asked[-1]
    assert (asked["job"], asked["checkpoint"], asked["host"]) == ("llm", NEWER, "gpu003")


def test_all_reasons_of_a_chosen_host_are_told_at_once(tmp_path: Path) -> None:
    desk, _ = desk_of(tmp_path, fleet((), ("port-taken", "memory-short")))
    plan = restore.prepare(desk, RestoreRequest("llm", to="gpu002"))
    assert plan.refused
    told = [item.text for item in plan.findings if item.code == "target-unfit"]
    assert told == ["port-taken is so", "memory-short is so"]


def test_a_warning_refuses_nobody(tmp_path: Path) -> None:
    desk, _ = desk_of(tmp_path, fleet(("clock-behind",), ("port-taken",)))
    assert restore.prepare(desk, RestoreRequest("llm")).params["target"] == "gpu001"


@pytest.mark.parametrize("code", ["checkpoint-damaged", "signature-wrong", "signature-unknown"])
def test_a_checkpoint_that_is_bad_everywhere_names_the_one_before(
    tmp_path: Path, code: str
) -> None:
    desk, _ = desk_of(tmp_path, fleet((code,), (code,)))
    plan = restore.prepare(desk, RestoreRequest("llm"))
    assert set(errors(plan)) == {"checkpoint-untrusted"}
    assert NEWER in errors(plan)["checkpoint-untrusted"]
    remedy = next(item.remedy for item in plan.findings if item.code == "checkpoint-untrusted")
    assert f"gpuguard restore llm --from {saved().checkpoint}" in (remedy or "")


def test_a_host_that_alone_sees_damage_is_unfit_and_no_more(tmp_path: Path) -> None:
    desk, _ = desk_of(tmp_path, fleet(("checkpoint-damaged",), ()))
    plan = restore.prepare(desk, RestoreRequest("llm"))
    assert errors(plan) == {}
    assert plan.params["target"] == "gpu002"


def test_a_move_is_refused_by_the_sources_preflight_before_anything_is_begun(
    tmp_path: Path,
) -> None:
    nodes = fleet((), (), live=True)
    nodes[0].preflight = [found(code, "llm", code).to_dict() for code in ("vsock", "tcp-closed")]
    desk, _ = desk_of(tmp_path, nodes)
    plan = migrate.prepare(desk, MigrateRequest("llm"))
    assert set(errors(plan)) == {"vsock"}
    assert "tcp-closed" in [item.code for item in plan.findings]
    assert nodes[0].procedures == {}


def test_a_move_asks_the_targets_with_the_running_jobs_record(tmp_path: Path) -> None:
    nodes = fleet((), ("user-missing",), (), live=True)
    desk, _ = desk_of(tmp_path, nodes)
    assert migrate.prepare(desk, MigrateRequest("llm")).params["target"] == "gpu003"
    assert nodes[1].asked[-1]["record"] == nodes[0].record
    assert nodes[0].asked == []


def test_only_a_dry_run_asks_the_preflight_ahead_of_a_checkpoint(tmp_path: Path) -> None:
    nodes = fleet((), live=True)
    nodes[0].preflight = [found("io-uring", "llm", "x").to_dict()]
    desk, _ = desk_of(tmp_path, nodes)
    dry = checkpoint.prepare(desk, CheckpointRequest(("llm",)), settle=False)
    assert set(errors(dry)) == {"io-uring"}
    assert not checkpoint.prepare(desk, CheckpointRequest(("llm",))).refused


def test_show_tells_every_host_and_the_silent_one_as_unknown(tmp_path: Path) -> None:
    nodes = fleet((), ("arch-other",), ())
    desk, _ = desk_of(tmp_path, nodes)
    nodes[2].dead = True
    _, verdicts = checkpoints.show(desk, "llm", NEWER)
    assert {item.host: item.fits for item in verdicts} == {
        "gpu001": True,
        "gpu002": False,
        "gpu003": None,
    }
    _, chosen = checkpoints.show(desk, "llm", NEWER, ["gpu002"])
    assert [item.host for item in chosen] == ["gpu002"]


def test_a_job_and_the_hosts_that_could_take_it_over(tmp_path: Path) -> None:
    nodes = fleet((), ("arch-other",), live=True)
    nodes[0].preflight = [found("file-deleted", "llm", "x").to_dict()]
    desk, _ = desk_of(tmp_path, nodes)
    report = examine_job(desk, "llm")
    assert report.exit_code == 0
    assert [item.code for item in report.findings] == ["file-deleted", "no-target"]
    assert [(item.host, item.fits) for item in report.verdicts] == [("gpu002", False)]
    nodes[0].preflight.append(found("vsock", "llm", "x").to_dict())
    assert examine_job(desk, "llm").exit_code == 1


def test_a_job_that_does_not_run_is_judged_by_its_newest_checkpoint(tmp_path: Path) -> None:
    nodes = fleet((), ())
    nodes[0].preflight = [found("job-not-running", "llm", "x").to_dict()]
    nodes[0].record = None
    desk, _ = desk_of(tmp_path, nodes)
    report = examine_job(desk, "llm")
    assert report.checkpoint == NEWER
    assert nodes[1].asked[-1]["checkpoint"] == NEWER
