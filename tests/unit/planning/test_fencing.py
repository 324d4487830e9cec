"""What proves that an old copy is gone, and what does not."""

from dataclasses import replace
from typing import Any

import pytest

from gpuguard.model.jobs import JobState
from gpuguard.model.plans import Confirm
from gpuguard.planning.fencing import Fence, fence
from gpuguard.planning.findings import refusal
from gpuguard.planning.requests import RestoreRequest
from gpuguard.planning.restore import plan_restore
from gpuguard.planning.views import EpochHolder, HostView, LeaseSight, PowerSight
from tests.unit.planning.sights import AT, fleet, holder, host, info, job, silent, store

LEASE = LeaseSight(1, "gpu001", 30.0, watched=30.5)
OFF, ON = PowerSight("off", None, True), PowerSight("on", None, True)


def judged(
    view: HostView,
    request: RestoreRequest | None = None,
    held: EpochHolder | None = None,
    lease: LeaseSight | None = None,
) -> Fence:
    return fence(
        request or RestoreRequest("llm"),
        held or holder(),
        fleet(view, host("gpu002")),
        store(info(), lease=lease),
        AT,
    )


def quiet(**changes: Any) -> HostView:
    return replace(silent("gpu001"), **changes)


@pytest.mark.parametrize(
    ("view", "held", "lease", "kind"),
    [
        (quiet(power=OFF), None, None, "power"),
        (quiet(scheduler="slurm has powered it off"), None, None, "scheduler"),
        (quiet(), None, LEASE, "lease"),
        (quiet(), replace(holder(), void=True), None, "undone"),
        (host("gpu001"), replace(holder(), void=True), None, "undone"),
    ],
)
def test_each_word_from_outside_is_proof(
    view: HostView, held: EpochHolder | None, lease: LeaseSight | None, kind: str
) -> None:
    proof = judged(view, held=held, lease=lease).proof
    assert proof is not None
    assert (proof.kind, proof.host, proof.at) == (kind, "gpu001", AT)


@pytest.mark.parametrize(
    ("view", "lease", "said"),
    [
        (quiet(power=ON), None, "its power is on"),
        (quiet(power=PowerSight(None, "exit 1: no route")), None, "not known: exit 1: no route"),
        (quiet(), replace(LEASE, moved=True), "renews its lease (30 s): it lives"),
        (quiet(), replace(LEASE, watched=29.9), "watched for 30 s only"),
        (quiet(), replace(LEASE, epoch=2), "unreachable is not dead"),
        (quiet(), replace(LEASE, host="gpu003"), "unreachable is not dead"),
    ],
)
def test_what_proves_nothing_is_said(view: HostView, lease: LeaseSight | None, said: str) -> None:
    fenced = judged(view, lease=lease)
    assert fenced.proof is None
    assert said in fenced.findings[0].text


def test_a_power_that_is_off_is_not_asked_of_a_host_that_answers() -> None:
    assert judged(replace(host("gpu001"), power=OFF), lease=LEASE).proof is None


def test_a_record_of_an_earlier_epoch_says_nothing_of_the_holder() -> None:
    for state, boot in ((JobState.MOVED, "boot-1"), (JobState.LOST, "boot-2")):
        view = host("gpu001", job(state, epoch=1), boot_id=boot)
        assert judged(view, held=holder(epoch=3)).proof is None
        assert judged(view, held=holder(epoch=1)).proof is not None


def test_switching_off_wants_the_hosts_name() -> None:
    request = RestoreRequest("llm", power_off=True)
    seen = fleet(quiet(power=ON), host("gpu002"))
    plan = plan_restore(request, seen, store(info()), AT, "restore-1")
    assert not plan.refused
    assert (plan.confirm, plan.confirm_name) == (Confirm.TYPE_NAME, "gpu001")
    assert (plan.steps[0].name, plan.steps[0].host) == ("power-off", "gpu001")
    assert plan.params["power_off"] == "gpu001"
    assert "power-off" in [finding.code for finding in plan.findings]


@pytest.mark.parametrize("power", [None, PowerSight("on", None, can_switch=False)])
def test_a_host_without_a_switch_is_not_switched_off(power: PowerSight | None) -> None:
    fenced = judged(quiet(power=power), RestoreRequest("llm", power_off=True))
    assert (fenced.proof, fenced.power_off) == (None, None)
    assert fenced.findings[0].code == "no-power-command"


def test_a_host_that_is_off_already_is_not_switched_off_again() -> None:
    fenced = judged(quiet(power=OFF), RestoreRequest("llm", power_off=True))
    assert fenced.proof is not None
    assert fenced.power_off is None


def test_a_host_that_answers_is_never_switched_off() -> None:
    request = RestoreRequest("llm", power_off=True)
    assert judged(replace(host("gpu001"), power=ON), request).findings[0].code == "no-proof"
    live = judged(replace(host("gpu001", job()), power=ON), request)
    assert live.findings[0].code == "still-alive"


def test_a_copy_at_work_is_busy_not_refused() -> None:
    held = {"kind": "restore", "procedure": "restore-9", "asked_by": "ann@desk", "since": "10:00"}
    seen = fleet(silent("gpu001"), host("gpu002", job(JobState.STOPPED, held_by=held)))
    plan = plan_restore(RestoreRequest("llm"), seen, store(info()), AT, "restore-1")
    error = refusal(plan)
    assert int(error.exit_code) == 75
    assert "held on gpu002 by restore restore-9 of ann@desk since 10:00" in error.message


def test_the_restore_is_bound_to_what_was_proved() -> None:
    seen = fleet(quiet(power=OFF), host("gpu002"))
    kept = store(info(sequence=4), info("20260131T110000Z-bbbbbb", sequence=3))
    plan = plan_restore(RestoreRequest("llm"), seen, kept, AT, "restore-1")
    assert plan.params["holder"]["epoch"] == 1
    assert plan.params["newest"] == 4
