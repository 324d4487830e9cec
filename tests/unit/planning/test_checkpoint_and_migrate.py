"""What a checkpoint and a move refuse, and in which order a move goes."""

import pytest

from gpuguard.agent.checkpointing.procedure import CHECKPOINT
from gpuguard.agent.restoring.procedure import RESTORE
from gpuguard.model.errors import RefusedError, UnreachableError, UsageError
from gpuguard.model.jobs import JobPolicy, JobState
from gpuguard.model.plans import Plan
from gpuguard.planning.checkpoint import plan_checkpoint
from gpuguard.planning.findings import refusal
from gpuguard.planning.migrate import plan_migrate
from gpuguard.planning.requests import CheckpointRequest, MigrateRequest
from gpuguard.planning.views import FleetView
from tests.unit.planning.sights import AT, fleet, holder, host, info, job, silent, store


def saving(seen: FleetView, stop: bool = False) -> Plan:
    return plan_checkpoint(
        CheckpointRequest(("llm",), stop), seen, "checkpoint-1", "give {} one".format
    )


def moving(seen: FleetView, to: str | None = None) -> Plan:
    return plan_migrate(MigrateRequest("llm", to), seen, store(info()), AT, "migrate-1")


def codes(made: Plan) -> list[str]:
    return [finding.code for finding in made.findings if finding.level.value == "error"]


def test_a_checkpoint_lets_the_job_go_on() -> None:
    made = saving(fleet(host("gpu001", job())))
    names = [step.name for step in made.steps]
    assert names == ["preflight", "dump", "prove", "copy", "publish"]
    assert made.params["hosts"] == {"llm": "gpu001"}


def test_a_stop_ends_it_after_it_is_durable() -> None:
    names = [step.name for step in saving(fleet(host("gpu001", job())), stop=True).steps]
    assert names[-2:] == ["publish", "end"]
    assert "prove" not in names


def test_a_job_without_a_store_cannot_be_saved_and_one_message_says_so() -> None:
    made = saving(fleet(host("gpu001", job(policy=JobPolicy(store=None)))))
    error = refusal(made)
    assert type(error) is RefusedError
    assert (error.message, error.hint) == (
        "llm: no store: nothing can be saved",
        "give default one",
    )


@pytest.mark.parametrize(
    ("seen", "code", "kind"),
    [
        (fleet(host("gpu001")), "job-unknown", UsageError),
        (fleet(host("gpu001"), silent("gpu002")), "host-unreachable", UnreachableError),
        (fleet(host("gpu001", job(JobState.EXITED))), "job-not-running", RefusedError),
        (fleet(host("gpu001", job(JobState.STOPPED))), "job-not-running", RefusedError),
        (
            fleet(host("gpu001", job(JobState.MOVED)), silent("gpu002")),
            "host-unreachable",
            UnreachableError,
        ),
        (fleet(host("gpu001", job()), host("gpu002", job())), "two-copies", RefusedError),
    ],
)
@pytest.mark.parametrize("make", [saving, moving])
def test_what_cannot_be_acted_on_is_refused(
    make: object, seen: FleetView, code: str, kind: type[Exception]
) -> None:
    assert callable(make)
    made = make(seen)
    assert codes(made) == [code]
    assert type(refusal(made)) is kind
    assert refusal(made).hint
    assert made.steps == ()


def test_two_copies_name_the_one_to_stop() -> None:
    seen = fleet(host("gpu001", job(epoch=1)), host("gpu002", job(epoch=2)))
    hint = refusal(saving(seen)).hint
    assert hint is not None and "--host gpu001" in hint


def test_a_move_ends_the_old_copy_before_the_new_one_is_claimed() -> None:
    made = moving(fleet(host("gpu001", job()), host("gpu002")))
    order = [(step.host, step.name) for step in made.steps]
    assert order.index(("gpu001", "publish")) < order.index(("gpu002", "preflight"))
    assert order.index(("gpu002", "hold")) < order.index(("gpu001", "give-away"))
    assert order.index(("gpu001", "end")) < order.index(("gpu002", "claim"))
    assert order[-1] == ("gpu002", "prove")


def test_the_steps_come_in_the_order_of_the_run_and_none_is_for_gpus() -> None:
    made = moving(fleet(host("gpu001", job()), host("gpu002")))
    for name, run in (("gpu001", CHECKPOINT), ("gpu002", RESTORE)):
        planned = [step.name for step in made.steps if step.host == name]
        order = [step.name for step in run.steps if step.name in planned]
        assert planned == order
        assert not [word for word in planned if word.endswith("-gpu")]


def test_a_move_says_its_proof() -> None:
    made = moving(fleet(host("gpu001", job()), host("gpu002")))
    fence = next(step for step in made.steps if step.name == "fence")
    assert fence.text.endswith("proof: gpu001 gives the job away before this copy goes on")


def test_a_move_goes_never_to_where_the_job_is() -> None:
    seen = fleet(host("gpu001", job()), host("gpu002"))
    assert codes(moving(seen, to="gpu001")) == ["same-host"]
    assert moving(seen).params["target"] == "gpu002"


def test_a_move_without_a_second_host_is_refused() -> None:
    assert codes(moving(fleet(host("gpu001", job()), silent("gpu002")))) == ["no-target"]


def test_a_move_without_a_store_is_refused() -> None:
    seen = fleet(host("gpu001", job(policy=JobPolicy(store=None))), host("gpu002"))
    assert codes(moving(seen)) == ["no-store"]


def test_a_move_gives_away_the_next_epoch() -> None:
    seen = fleet(host("gpu001", job(epoch=4)), host("gpu002"))
    made = plan_migrate(MigrateRequest("llm"), seen, store(holder=holder(epoch=4)), AT, "migrate-1")
    assert made.params["epoch"] == 5
