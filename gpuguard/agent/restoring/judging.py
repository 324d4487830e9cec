"""Judge whether a job can come back on this host, rule by rule, before anything is copied."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from gpuguard.agent.host.cordons import require_no_cordon
from gpuguard.agent.jobs import register as jobs
from gpuguard.agent.jobs.supervision import find_supervisor
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.restoring.host_sight import look_around
from gpuguard.agent.store.identity import require_same_store
from gpuguard.agent.store.reading import (
    check_shape,
    checkpoint_folder,
    job_folder,
    job_uid,
    read_manifest_bytes,
    require_store,
)
from gpuguard.agent.store.signature import check_signature
from gpuguard.agent.survey.sentences import named
from gpuguard.agent.survey.tree_record import read_task
from gpuguard.checkpoint.compatibility import judge
from gpuguard.checkpoint.manifest_checks import SIGNATURE
from gpuguard.checkpoint.preflight_codes import found, passed, rule_of
from gpuguard.model.errors import GpuguardError, RefusedError
from gpuguard.model.jobs import JobOrigin
from gpuguard.model.manifests import Manifest
from gpuguard.model.plans import Finding, Level

_HELD = ("ports", "locks")


@dataclass(frozen=True)
class Question:
    """What is to come back here: a checkpoint of the store, or a job that still runs elsewhere."""

    store: str
    job: str
    host: str  # this host's name in the inventory
    checkpoint: Optional[str] = None
    allowed_signers: str = ""
    record: Optional[Manifest] = None  # of a running job, in place of a checkpoint

    @property
    def folder(self) -> Optional[Path]:
        """The checkpoint's folder, None for a running job."""
        if self.checkpoint is None:
            return None
        return checkpoint_folder(self.store, self.job, self.checkpoint)


def judge_host(paths: NodePaths, question: Question) -> list[Finding]:
    """Return what stands against this host, and each rule that holds."""
    manifest, verdict = judge_store(paths, question)
    verdict = [*judge_cordon(paths, question), *verdict]
    copies = judge_copies(paths, question, manifest)
    verdict += copies
    if manifest is None:
        return verdict
    if question.folder is not None:
        verdict += judge_signature(question, manifest)
    seen = look_around(question.host, manifest, question.folder)
    # What a copy of the job itself holds here says nothing beyond that it is here.
    itself = any(item.level is Level.ERROR for item in copies)
    found = judge(manifest, seen)
    return [*verdict, *(f for f in found if not (itself and rule_of(f.code) in _HELD))]


def judge_cordon(paths: NodePaths, question: Question) -> list[Finding]:
    """Check that nobody keeps new work off this host."""
    try:
        require_no_cordon(paths, question.host)
    except RefusedError as error:
        return [found("host-cordoned", question.host, error.message, error.hint)]
    return [passed("cordon", question.host, "takes new work")]


def judge_store(paths: NodePaths, question: Question) -> tuple[Optional[Manifest], list[Finding]]:
    """Return the manifest, None where it cannot be read or believed, and what the store says."""
    try:
        require_store(question.store)
        require_same_store(paths, question.store)
        folder = question.folder
        against = list(_unwritable(question))
        if folder is None:
            return question.record, against or [passed("store", question.host, question.store)]
        if not folder.is_dir():
            text = f"{question.store} shows no checkpoint {folder.name} of {question.job} here"
            return None, [found("store-unreachable", question.host, text)]
        manifest, wrong = check_shape(folder, question.job, job_uid(folder.parent))
    except (OSError, GpuguardError) as error:
        return None, [found("store-unreachable", question.host, str(error))]
    if manifest is None or wrong:
        text = "; ".join(item.text for item in wrong)
        return None, [found("checkpoint-damaged", question.host, text)]
    text = f"{folder}: {len(manifest.files)} files of the right size"
    return manifest, against or [passed("store", question.host, text)]


def _unwritable(question: Question) -> Iterator[Finding]:
    """A restore claims the job in its store: to read it is not enough."""
    job = job_folder(question.store, question.job)
    if not os.access(job if job.is_dir() else question.store, os.W_OK):
        text = f"the store {question.store} cannot be written: read-only, or no right to"
        yield found("store-unreachable", question.host, text)


def judge_signature(question: Question, manifest: Manifest) -> list[Finding]:
    """Check who signed the manifest; bytes are hashed when the checkpoint is restored."""
    folder = question.folder
    if folder is None:
        return []
    data = read_manifest_bytes(folder)
    wrong = check_signature(data, folder / SIGNATURE, manifest.host, question.allowed_signers)
    if wrong:
        return [found(item.code, question.host, item.text, item.remedy) for item in wrong]
    return [passed("signature", question.host, f"signed by {manifest.host}, which is enrolled")]


def judge_copies(
    paths: NodePaths, question: Question, manifest: Optional[Manifest]
) -> list[Finding]:
    """Check that no copy of the job lives here, in whatever epoch."""
    against = [*_copies(paths, question), *_original(question, manifest)]
    return against or [passed("copies", question.host, f"nothing of {question.job} lives here")]


def _copies(paths: NodePaths, question: Question) -> Iterator[Finding]:
    name = question.job
    hint = f"stop it first: gpuguard jobs stop {name}"
    if (paths.job(name) / "job.json").exists():
        job = jobs.load_job(paths, name)
        if job.state not in jobs.ENDED:
            text = f"job {name} is {job.state.value} on {question.host} already"
            yield found("job-here", question.host, text, hint)
            return
    supervisor = find_supervisor(paths.job(name))
    if supervisor is not None:
        text = f"a supervisor of job {name} lives here, process {supervisor.pid}"
        yield found("job-here", question.host, text, hint)


def _original(question: Question, manifest: Optional[Manifest]) -> Iterator[Finding]:
    """Find the original of an adopted job: without a supervisor only its pid tells of it."""
    if manifest is None or question.folder is None:
        return  # a running job's own host is no target for it
    if manifest.origin is not JobOrigin.ADOPTED or manifest.epoch > 1:
        return  # only the first generation lives outside of a supervisor's namespaces
    first = manifest.tree[0] if manifest.tree else None
    task = read_task(manifest.namespace_pid)
    if first is None or task is None or task.zombie:
        return
    if (task.name, task.inner_pid) == (first.name, first.pid):
        text = f"{named(task.pid)} looks like the original of the job, still alive"
        yield found("original-left", question.host, text)
