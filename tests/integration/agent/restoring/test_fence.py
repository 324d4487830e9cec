"""A restore is bound to the holder its proof is about; late checkpoints do not count."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from gpuguard.agent.checkpointing.publishing import Publish
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures.journal import Journal
from gpuguard.agent.procedures.procedure import Context
from gpuguard.agent.restoring.fence import Fence
from gpuguard.agent.restoring.run import _require_silence, _void_claim
from gpuguard.agent.store.attempts import newest_attempt
from gpuguard.agent.store.epochs import EpochRecord, claim_epoch, highest_epoch, is_void
from gpuguard.agent.store.reading import list_checkpoints, read_highest_epoch
from gpuguard.checkpoint.naming import partial_name
from gpuguard.checkpoint.ordering import newest_durable
from gpuguard.model.errors import BusyError, RefusedError
from gpuguard.model.jobs import Job, JobOrigin, JobPolicy, JobSpec, JobState
from gpuguard.model.procedures import ProcedureRequest
from tests.integration.agent.signed import publish
from tests.unit.agent.checkpoints import JOB, UID, fill_stage

HOLDER = {"epoch": 1, "host": "h1"}
PROOF = {"kind": "assume-dead", "host": "h1", "text": "the operator says so", "at": "now"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@pytest.fixture
def saved(store: Path, tmp_path: Path) -> str:
    claim_after(store)
    return add(store, tmp_path, 1, 1)


def claim_after(store: Path) -> None:
    (store / JOB).mkdir(exist_ok=True)
    (store / JOB / "uid").write_text(UID + "\n")
    claim(store, 1, "h1")


def claim(store: Path, epoch: int, host: str, sequence: int | None = None) -> None:
    record = EpochRecord(epoch, host, UID, f"r{epoch}", "2026-01-31T12:00:00Z", "bob@desk")
    claim_epoch(store / JOB, dataclasses.replace(record, sequence=sequence))


def add(store: Path, tmp_path: Path, epoch: int, sequence: int) -> str:
    stage = fill_stage(tmp_path / f"stage-{epoch}-{sequence}")
    return publish(store, tmp_path / "keys", stage, epoch=epoch, sequence=sequence).name


def context(paths: NodePaths, store: Path, checkpoint: str, **more: Any) -> Context:
    procedure = more.pop("id", "restore-9")
    params = {"job": JOB, "checkpoint": checkpoint, "store": str(store), "host": "h2"}
    request = ProcedureRequest(procedure, "restore", {**params, **more}, "ann@desk")
    folder = paths.procedure(procedure)
    folder.mkdir()
    return Context(request, paths, Journal.create(folder), folder)


def test_the_epoch_is_the_one_after_what_was_proved(
    paths: NodePaths, store: Path, saved: str
) -> None:
    ctx = context(paths, store, saved, holder=HOLDER, proof=PROOF)
    Fence().do(ctx)
    assert (ctx.facts["epoch"], ctx.facts["holder"]) == (2, "h1")
    Fence().undo(ctx)
    assert newest_attempt(store / JOB)[1].released  # type: ignore[union-attr]


def test_a_proof_about_an_earlier_holder_is_worth_nothing(
    paths: NodePaths, store: Path, saved: str
) -> None:
    claim(store, 2, "h3")
    ctx = context(paths, store, saved, holder=HOLDER, proof=PROOF)
    with pytest.raises(BusyError, match=r"h3 holds the job since 2026.*r2 of bob@desk"):
        Fence().do(ctx)
    Fence().undo(ctx)


def test_a_move_looks_at_the_epoch_not_at_the_name(
    paths: NodePaths, store: Path, saved: str
) -> None:
    holder = {"epoch": 1, "host": "renamed"}
    ctx = context(paths, store, saved, holder=holder, hold=True, proof={"kind": "handover"})
    Fence().do(ctx)
    Fence().undo(ctx)
    assert ctx.facts["epoch"] == 2
    claim(store, 2, "h3")
    late = context(paths, store, saved, id="late", holder=holder, hold=True)
    with pytest.raises(BusyError):
        Fence().do(late)
    Fence().undo(late)


def test_a_lost_record_is_made_up_for_by_what_was_proved(
    paths: NodePaths, store: Path, saved: str
) -> None:
    (store / JOB / "epochs/1").unlink()
    proof = {**PROOF, "host": "h3"}
    ctx = context(paths, store, saved, holder={"epoch": 4, "host": "h3"}, proof=proof)
    Fence().do(ctx)
    Fence().undo(ctx)
    assert (ctx.facts["epoch"], ctx.facts["holder"]) == (5, "h3")


def test_no_proof_no_restore_and_no_trace(paths: NodePaths, store: Path, saved: str) -> None:
    ctx = context(paths, store, saved, holder=HOLDER)
    with pytest.raises(RefusedError, match="nothing proves"):
        Fence().do(ctx)
    Fence().undo(ctx)
    again = context(paths, store, saved, id="again", holder=HOLDER, proof=PROOF)
    Fence().do(again)
    Fence().undo(again)


def test_a_checkpoint_since_the_plan_shows_that_the_old_copy_lives(
    paths: NodePaths, store: Path, saved: str, tmp_path: Path
) -> None:
    ctx = context(paths, store, saved, holder=HOLDER, proof=PROOF, newest=1)
    assert _require_silence(ctx, store / JOB) == 1
    newer = add(store, tmp_path, 1, 2)
    with pytest.raises(RefusedError, match=f"the old copy lives: h1 has written.*{newer}"):
        _require_silence(ctx, store / JOB)


def test_a_late_checkpoint_of_a_left_copy_is_listed_and_never_newest(
    store: Path, saved: str, tmp_path: Path
) -> None:
    claim(store, 2, "h2", sequence=1)
    late = add(store, tmp_path, 1, 2)
    listed = list_checkpoints(str(store), JOB)
    states = {info.checkpoint: info.state for info in listed}
    assert states == {saved: "durable", late: "outdated"}
    assert "after h2 had taken the job over" in str(listed[-1].problem)
    assert newest_durable(listed, UID).checkpoint == saved  # type: ignore[union-attr]
    own = add(store, tmp_path, 2, 2)
    assert newest_durable(list_checkpoints(str(store), JOB), UID).checkpoint == own  # type: ignore[union-attr]


def test_going_back_to_an_older_one_hides_nothing(store: Path, saved: str, tmp_path: Path) -> None:
    newer = add(store, tmp_path, 1, 2)
    claim(store, 2, "h2", sequence=2)
    states = {info.checkpoint: info.state for info in list_checkpoints(str(store), JOB)}
    assert states == {saved: "durable", newer: "durable"}


def test_a_left_copy_cannot_publish(paths: NodePaths, store: Path, saved: str) -> None:
    late = "20260131T120000Z-aaaaaa"
    ctx = context(paths, store, late)
    policy = JobPolicy(store=str(store))
    job = Job(JobSpec(JOB, UID), JobOrigin.LAUNCHED, JobState.RUNNING, 1, "boot", policy=policy)
    ctx.record("", job=job.to_dict(), store=str(store))
    partial = store / JOB / partial_name(late)
    partial.mkdir()
    claim(store, 2, "h2", sequence=1)
    with pytest.raises(RefusedError, match=r"h2 has taken job train over \(epoch 2, since 2026"):
        Publish().do(ctx)
    assert partial.exists()
    assert next(info.checkpoint for info in list_checkpoints(str(store), JOB)) == saved


def test_a_claim_whose_copy_never_ran_is_void(paths: NodePaths, store: Path, saved: str) -> None:
    ctx = context(paths, store, saved, id="r2")
    ctx.record("", epoch=2)
    _void_claim(ctx)
    assert not is_void(store / JOB, 2)
    claim(store, 2, "h2")
    _void_claim(ctx)
    assert is_void(store / JOB, 2)
    assert highest_epoch(store / JOB).epoch == 2  # type: ignore[union-attr]
    assert read_highest_epoch(str(store), JOB)["void"] is True  # type: ignore[index]
