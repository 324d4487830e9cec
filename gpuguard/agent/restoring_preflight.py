"""Everything that would make a restore fail here, as one list, before anything is touched."""

import os
import platform
import pwd
from collections.abc import Iterator
from pathlib import Path

from gpuguard.agent import jobs
from gpuguard.agent import restoring_facts as facts
from gpuguard.agent.cordons import require_no_cordon
from gpuguard.agent.criu import require_criu
from gpuguard.agent.epochs import highest_epoch
from gpuguard.agent.host_facts import cpu_flags, memory_available
from gpuguard.agent.procedure import Context, Step
from gpuguard.agent.restoring_files import decide_files
from gpuguard.agent.store import check_shape, job_uid
from gpuguard.agent.store_id import recognise_store
from gpuguard.agent.store_write import probe_folder, unwritable
from gpuguard.agent.supervision import find_supervisor
from gpuguard.agent.tree_record import read_task
from gpuguard.checkpoint.cpu import missing_flags
from gpuguard.checkpoint.file_decisions import FileAction
from gpuguard.model.errors import RefusedError
from gpuguard.model.jobs import JobOrigin
from gpuguard.model.manifests import Manifest

_MIB = 1024 * 1024


class Preflight(Step):
    """Check host and checkpoint; what a manifest says is not believed before `verify`."""

    name = "preflight"

    def do(self, ctx: Context) -> None:
        """Record the epoch the job gets and what was here before.

        Raises:
            RefusedError: with the whole list of reasons.
        """
        require_no_cordon(ctx.paths, facts.host_name(ctx))
        require_not_here(ctx)
        version = require_criu(os.uname().release, facts.host_name(ctx))
        _require_store(ctx)
        folder = facts.source_folder(ctx)
        manifest, found = check_shape(folder, facts.job_name(ctx), job_uid(folder.parent))
        if manifest is None or found:
            raise refusal(ctx, [item.text for item in found])
        problems = [*_left_behind(manifest), *_problems(ctx, manifest)]
        if problems:
            raise refusal(ctx, problems)
        top = highest_epoch(folder.parent)
        ctx.record(
            f"{len(manifest.tree)} processes, {manifest.bytes // _MIB} MiB",
            epoch=max(top.epoch if top else 0, manifest.epoch) + 1,
            holder=top.host if top else manifest.host,
            criu_version=version,
        )


def _require_store(ctx: Context) -> None:
    """Look at the store as the claim of the epoch will need it, when it is too late to refuse."""
    store = str(ctx.params["store"])
    try:
        recognise_store(ctx.paths, store)
        folder = facts.source_folder(ctx).parent
        if folder.is_dir():
            probe_folder(folder)
    except OSError as error:
        raise unwritable(store, error) from error


def require_not_here(ctx: Context) -> None:
    """Check that no copy of the job lives on this host, in whatever epoch.

    Raises:
        RefusedError: one does.
    """
    name = facts.job_name(ctx)
    hint = f"stop it first: gpuguard jobs stop {name}"
    if (ctx.paths.job(name) / "job.json").exists():
        job = jobs.load_job(ctx.paths, name)
        if job.state not in jobs.ENDED:
            text = f"job {name} is {job.state.value} on {facts.host_name(ctx)} already"
            raise RefusedError(text, hint)
    supervisor = find_supervisor(ctx.paths.job(name))
    if supervisor is not None:
        text = f"a supervisor of job {name} lives here, process {supervisor.pid}"
        raise RefusedError(text, hint)


def _left_behind(manifest: Manifest) -> Iterator[str]:
    """Find the original of an adopted job: without a supervisor only its pid tells of it."""
    if manifest.origin is not JobOrigin.ADOPTED or manifest.epoch > 1:
        return  # only the first generation lives outside of a supervisor's namespaces
    first = manifest.tree[0] if manifest.tree else None
    task = read_task(manifest.namespace_pid)
    if (
        first
        and task
        and not task.zombie
        and (task.name, task.inner_pid) == (first.name, first.pid)
    ):
        yield f"process {task.pid} ({task.name}) looks like the original of the job, still alive"


def refusal(ctx: Context, problems: list[str]) -> RefusedError:
    """Build the refusal that lists everything found."""
    checkpoint, host = ctx.params["checkpoint"], facts.host_name(ctx)
    text = f"{checkpoint} cannot be restored on {host}: " + "; ".join(problems)
    hint = f"put that right, or choose another host or checkpoint of {facts.job_name(ctx)}"
    return RefusedError(text, hint, {"problems": problems})


def _problems(ctx: Context, manifest: Manifest) -> Iterator[str]:
    if manifest.versions.get("arch", platform.machine()) != platform.machine():
        yield f"it is of a {manifest.versions['arch']} host, this is {platform.machine()}"
    flags = missing_flags(manifest.cpu_flags, cpu_flags())
    if flags:
        yield f"this CPU lacks {', '.join(flags)}"
    if manifest.job.user is not None and not _user_exists(manifest.job.user):
        yield f"user {manifest.job.user} does not exist here"
    free = memory_available()
    if free < manifest.bytes:
        yield f"{free // _MIB} MiB of memory are free, {manifest.bytes // _MIB} MiB are needed"
    for process in manifest.tree:
        on_disk = process.exe and not process.exe.endswith(" (deleted)")
        if on_disk and not Path(process.exe).exists():
            yield f"{process.exe} is missing"
    for _, decision in decide_files(manifest, facts.source_folder(ctx)):
        if decision.action is FileAction.REFUSE:
            yield decision.text


def _user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
