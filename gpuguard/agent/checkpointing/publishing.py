"""Bring a dumped checkpoint into the store, where it counts for the loss of the node."""

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Callable

from gpuguard.agent.checkpointing import facts
from gpuguard.agent.checkpointing.dump import read_record
from gpuguard.agent.clock import utc_now
from gpuguard.agent.procedures.procedure import Context, Step
from gpuguard.agent.store.epochs import highest_epoch
from gpuguard.agent.store.hashing import copy_folder, list_files
from gpuguard.agent.store.partials import sweep
from gpuguard.agent.store.reading import describe_checkpoint, list_checkpoints, load_manifest
from gpuguard.agent.store.signature import ensure_key
from gpuguard.agent.store.write import (
    make_partial,
    publish_partial,
    remove_folder,
    seal_partial,
    store_error,
)
from gpuguard.agent.survey.build_ids import add_build_ids
from gpuguard.checkpoint.naming import partial_name
from gpuguard.checkpoint.ordering import next_sequence
from gpuguard.model.errors import RefusedError
from gpuguard.model.jobs import Job
from gpuguard.model.manifests import FileHash, Manifest

_REPORT_SECONDS = 0.5


class Copy(Step):
    """Copy everything under a partial name, hashed, synced, with its signed manifest last."""

    name = "copy"

    def do(self, ctx: Context) -> None:
        """Write the partial checkpoint.

        Raises:
            GpuguardError: the store is full, read-only or gone; the job is not touched by that.
        """
        stage, store = facts.stage_of(ctx), facts.store_of(ctx)
        partial = _partial(ctx)
        key = ensure_key(ctx.paths.keys)
        ctx.record(f"copies to {partial}", copying=True)
        try:
            make_partial(partial.parent, facts.checkpoint_id(ctx))
            began = time.monotonic()
            hashes = copy_folder(stage.folder, partial, _reporter(ctx, stage.folder))
            seal_partial(partial, _complete(ctx, hashes, time.monotonic() - began), key)
        except OSError as error:
            raise store_error(store, error) from error

    def undo(self, ctx: Context) -> None:
        """Remove the partial checkpoint; one that cannot be removed stays marked as partial."""
        facts.thaw(ctx)
        partial = _partial(ctx)
        if not ctx.facts.get("copying"):
            return
        try:
            if partial.exists():
                remove_folder(partial)
        except OSError as error:
            ctx.record(
                f"{partial} could not be removed ({error}): it is listed as partial and never "
                "restored; remove it with gpuguard checkpoints rm"
            )


class Publish(Step):
    """Give the checkpoint its name: from here on it is durable."""

    name = "publish"

    def do(self, ctx: Context) -> None:
        """Rename the partial checkpoint into place.

        Raises:
            RefusedError: another host has taken the job over meanwhile.
            GpuguardError: the store refuses.
        """
        partial = _partial(ctx)
        _require_newest(ctx, partial.parent)
        final = partial.parent / facts.checkpoint_id(ctx)
        try:
            publish_partial(partial, facts.checkpoint_id(ctx))
        except OSError as error:
            raise store_error(facts.store_of(ctx), error) from error
        info = describe_checkpoint(final, facts.job_name(ctx))
        manifest, _ = load_manifest(final, info.checkpoint)
        times = manifest.times.to_dict() if manifest else None
        ctx.result.update(info=info.to_dict(), times=times)
        if ctx.params.get("after") == facts.STOP:
            ctx.commit("durable: the stopped job may be ended", result=ctx.result)
        for line in sweep(ctx.paths, final.parent, facts.stage_of(ctx).folder):
            ctx.record(line)
        if not facts.stays_stopped(ctx):
            facts.clear_stage(ctx)

    def happened(self, ctx: Context) -> bool:
        """Tell whether it has its name: then it is durable, and a job beside it is as asked for.

        A move is not carried on: nobody may be there any more to hand the job over to.
        """
        final = _partial(ctx).parent / facts.checkpoint_id(ctx)
        return ctx.params.get("after") != facts.HOLD and final.exists()

    def undo(self, ctx: Context) -> None:
        """Let the job go on; a published checkpoint stays, it is whole."""
        facts.thaw(ctx)


def _require_newest(ctx: Context, folder: Path) -> None:
    """A claim that comes after this look makes the checkpoint outdated: it says what it knew."""
    if (folder / facts.checkpoint_id(ctx)).exists():
        return  # published before we were cut off
    job = Job.from_dict(ctx.facts["job"])
    top = highest_epoch(folder)
    if top is not None and top.epoch > max(1, job.epoch):
        raise RefusedError(
            f"{top.host} has taken job {job.spec.name} over (epoch {top.epoch}, since {top.at}): "
            f"this copy is outdated and its checkpoint does not count",
            f"gpuguard jobs show {job.spec.name}",
            {"holder": top.to_dict()},
        )


def _partial(ctx: Context) -> Path:
    return Path(facts.store_of(ctx)) / facts.job_name(ctx) / partial_name(facts.checkpoint_id(ctx))


def _complete(ctx: Context, hashes: tuple[FileHash, ...], seconds: float) -> Manifest:
    record = read_record(ctx)
    listed = list_checkpoints(facts.store_of(ctx), facts.job_name(ctx))
    now = utc_now()
    times = replace(record.times, copied=now, durable=now, copy_seconds=seconds)
    return replace(
        record,
        sequence=next_sequence(listed, record.job.uid),
        files=hashes,
        bytes=sum(item.size for item in hashes),
        open_files=add_build_ids(record.open_files, facts.root_ref(ctx).pid),
        times=times,
    )


def _reporter(ctx: Context, folder: Path) -> Callable[[int], None]:
    total = sum(list_files(folder).values())
    lock = threading.Lock()
    done, last = 0, time.monotonic()

    def report(size: int) -> None:
        nonlocal done, last
        with lock:
            done += size
            if time.monotonic() - last >= _REPORT_SECONDS:
                last = time.monotonic()
                ctx.progress(f"{done} of {total} bytes", done=done, total=total)

    return report
