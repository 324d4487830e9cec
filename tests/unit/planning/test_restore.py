"""What a restore chooses, and what it refuses."""

import pytest

from gpuguard.model.jobs import JobState
from gpuguard.model.plans import Confirm, Plan
from gpuguard.planning.requests import RestoreRequest
from gpuguard.planning.restore import plan_restore
from gpuguard.planning.views import FleetView, StoreView
from tests.unit.planning.sights import (
    AT,
    fleet,
    holder,
    host,
    info,
    job,
    manifest,
    silent,
    store,
)


def plan(seen: FleetView, kept: StoreView, request: RestoreRequest | None = None) -> Plan:
    return plan_restore(request or RestoreRequest("llm"), seen, kept, AT, "restore-1")


def codes(made: Plan) -> list[str]:
    return [finding.code for finding in made.findings if finding.level.value == "error"]


def gone_fleet() -> FleetView:
    return fleet(host("gpu001", job(JobState.LOST)), host("gpu002"))


def test_the_newest_by_epoch_and_number_is_chosen_whatever_the_clock_says() -> None:
    newest = info("20260101T000000Z-bbbbbb", epoch=2, sequence=9)
    kept = store(info("20260201T000000Z-aaaaaa", epoch=2, sequence=8), newest, info(epoch=1))
    made = plan(gone_fleet(), kept)
    assert made.params["checkpoint"] == newest.checkpoint
    assert made.confirm is Confirm.YES_NO


def test_the_steps_have_the_names_of_the_journal() -> None:
    made = plan(gone_fleet(), store(info()))
    assert [step.name for step in made.steps] == [
        "preflight",
        "fence",
        "verify",
        "files",
        "restore",
        "claim",
        "go",
        "prove",
    ]


def test_partial_and_broken_checkpoints_are_passed_over() -> None:
    good = info("20260131T110000Z-bbbbbb", sequence=1)
    kept = store(info(sequence=3, state="broken"), info(sequence=2, state="partial"), good)
    assert plan(gone_fleet(), kept).params["checkpoint"] == good.checkpoint


def test_nothing_durable_is_refused() -> None:
    made = plan(gone_fleet(), store(info(state="partial"), manifest=None))
    assert codes(made) == ["no-checkpoint"]


def test_another_jobs_checkpoint_of_the_same_name_is_not_taken() -> None:
    made = plan(gone_fleet(), store(info(uid="u-other"), manifest=None))
    assert codes(made) == ["no-checkpoint"]


def test_an_older_one_is_taken_on_request_with_a_warning() -> None:
    old, new = info("20260131T110000Z-bbbbbb"), info(sequence=2)
    made = plan(gone_fleet(), store(new, old), RestoreRequest("llm", old.checkpoint))
    assert made.params["checkpoint"] == old.checkpoint
    assert made.findings[0].code == "older-checkpoint"


@pytest.mark.parametrize("wish", ["20260131T090000Z-cccccc", "20260131T120000Z-aaaaaa"])
def test_a_missing_or_broken_one_is_refused_on_request(wish: str) -> None:
    made = plan(gone_fleet(), store(info(state="broken")), RestoreRequest("llm", wish))
    assert made.refused


@pytest.mark.parametrize("state", [JobState.EXITED, JobState.LOST, JobState.MOVED, JobState.STALE])
def test_the_old_hosts_word_is_proof(state: JobState) -> None:
    made = plan(fleet(host("gpu001", job(state)), host("gpu002")), store(info()))
    assert made.params["proof"]["kind"] == "gone"
    assert made.params["proof"]["host"] == "gpu001"


def test_another_boot_id_is_proof() -> None:
    seen = fleet(host("gpu001", job(JobState.EXITED), boot_id="boot-2"), host("gpu002"))
    assert plan(seen, store(info())).params["proof"]["kind"] == "boot-id"


def test_the_fence_step_says_the_proof_that_the_run_uses() -> None:
    seen = fleet(host("gpu001", job(JobState.EXITED), boot_id="boot-2"), host("gpu002"))
    made = plan(seen, store(info()))
    said = next(step.text for step in made.steps if step.name == "fence")
    assert said.endswith("proof: gpu001 was booted since llm ran there: its boot id changed")
    assert said.endswith(made.params["proof"]["text"])


def test_without_proof_the_fence_step_says_so() -> None:
    made = plan(fleet(silent("gpu001"), host("gpu002")), store(info()))
    assert next(s.text for s in made.steps if s.name == "fence").endswith("proof: there is none")
    assert made.params["proof"] is None


def test_unreachable_is_not_dead() -> None:
    made = plan(fleet(silent("gpu001"), host("gpu002")), store(info()))
    assert codes(made) == ["no-proof"]
    remedy = next(f.remedy for f in made.findings if f.code == "no-proof")
    assert remedy is not None and "--assume-dead gpu001" in remedy


def test_a_host_that_knows_nothing_of_it_proves_nothing() -> None:
    assert codes(plan(fleet(host("gpu001"), host("gpu002")), store(info()))) == ["no-proof"]


def test_the_typed_name_is_proof_with_a_warning() -> None:
    request = RestoreRequest("llm", assume_dead="gpu001")
    made = plan(fleet(silent("gpu001"), host("gpu002")), store(info()), request)
    assert made.params["proof"]["kind"] == "assume-dead"
    assert made.params["target"] == "gpu002"
    assert "assumed-dead" in [finding.code for finding in made.findings]


def test_another_hosts_name_is_no_proof() -> None:
    request = RestoreRequest("llm", assume_dead="gpu003")
    made = plan(fleet(silent("gpu001"), host("gpu002")), store(info()), request)
    assert codes(made) == ["no-proof"]


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.STOPPED, JobState.UNKNOWN])
def test_a_live_copy_anywhere_refuses_even_with_the_typed_name(state: JobState) -> None:
    request = RestoreRequest("llm", assume_dead="gpu001")
    seen = fleet(silent("gpu001"), host("gpu002", job(state)), host("gpu003"))
    assert "still-alive" in codes(plan(seen, store(info()), request))


def test_the_highest_epoch_record_says_whose_end_must_be_proved() -> None:
    # gpu001 gave the job to gpu003, which is silent: gpu001's word is worth nothing.
    seen = fleet(host("gpu001", job(JobState.MOVED)), host("gpu002"), silent("gpu003"))
    kept = store(info(), holder=holder("gpu003", 2))
    assert codes(plan(seen, kept)) == ["no-proof"]


def test_a_checkpoint_above_the_record_names_its_writer() -> None:
    seen = fleet(host("gpu001", job(JobState.MOVED)), host("gpu002"), silent("gpu003"))
    kept = store(info(epoch=3, host="gpu003"), holder=holder("gpu001", 2))
    assert codes(plan(seen, kept)) == ["no-proof"]


def test_the_host_with_most_free_memory_is_chosen() -> None:
    seen = fleet(
        host("gpu001", job(JobState.LOST), memory_available=2 << 30),
        host("gpu002", memory_available=3 << 30),
        host("gpu003", memory_available=5 << 30),
    )
    made = plan(seen, store(info()))
    assert made.params["target"] == "gpu003"
    assert _why(made) == "chosen: 3 hosts fit, it has most free memory"


@pytest.mark.parametrize(("second", "third"), [(4.0, 4.9), (4.9, 4.0)])
def test_about_equal_hosts_are_taken_in_the_inventorys_order(second: float, third: float) -> None:
    seen = fleet(
        host("gpu001", job(JobState.LOST), memory_available=2 << 30),
        host("gpu002", memory_available=int(second * (1 << 30))),
        host("gpu003", memory_available=int(third * (1 << 30))),
    )
    made = plan(seen, store(info()))
    assert made.params["target"] == "gpu002"
    assert "2 of them have about the most free memory" in _why(made)
    assert "first of these in the inventory" in _why(made)


def test_the_only_fit_host_is_said_to_be_the_only_one() -> None:
    seen = fleet(silent("gpu001"), host("gpu002"))
    made = plan(seen, store(info()), RestoreRequest("llm", assume_dead="gpu001"))
    assert _why(made) == "chosen: the only host that fits"


def _why(made: Plan) -> str:
    return next(f.text for f in made.findings if f.code == "target-chosen")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"arch": "aarch64"}, "aarch64"),
        ({"criu": None}, "not installed"),
        ({"criu": "4.1.1"}, "older than 4.2.1"),
        ({"kernel": "5.15.0-91"}, "kernel 5.15.0-91 is older"),
        ({"memory_available": 1 << 20}, "MiB of memory free"),
        ({"memory_available": None}, "MiB of memory free"),
        ({"cpu_flags": ("sse4_2",)}, "its CPU lacks avx"),
    ],
)
def test_unfit_hosts_are_refused_with_the_reason(change: dict[str, object], reason: str) -> None:
    seen = fleet(silent("gpu001"), host("gpu002", **change))
    request = RestoreRequest("llm", to="gpu002", assume_dead="gpu001")
    made = plan(seen, store(info()), request)
    assert codes(made) == ["target-unfit"]
    assert any(reason in finding.text for finding in made.findings)
    chosen = plan(seen, store(info()), RestoreRequest("llm", assume_dead="gpu001"))
    assert codes(chosen) == ["no-target"]


def test_a_host_that_does_not_see_the_store_is_unfit() -> None:
    seen = fleet(host("gpu001", job(JobState.LOST)), host("gpu002"))
    made = plan(seen, store(info(), sees=("gpu001",)), RestoreRequest("llm", to="gpu002"))
    assert codes(made) == ["target-unfit"]


def test_an_unknown_target_is_refused() -> None:
    made = plan(gone_fleet(), store(info()), RestoreRequest("llm", to="gpu009"))
    assert codes(made) == ["target-unfit"]


def test_the_memory_of_the_tree_is_what_must_be_free() -> None:
    seen = fleet(host("gpu001", job(JobState.LOST), memory_available=1 << 30), host("gpu002"))
    kept = store(info(), manifest=manifest())
    assert plan(seen, kept).params["target"] == "gpu002"
