"""Read a store: which checkpoints it has, and in what state they are."""

import json
import os
from pathlib import Path
from typing import Any, Optional

from gpuguard.agent.store.epochs import highest_epoch, is_void, read_claims
from gpuguard.agent.store.hashing import list_files
from gpuguard.checkpoint.manifest_checks import (
    MANIFEST,
    SIGNATURE,
    check_identity,
    check_images,
    check_listing,
    check_paths,
    finding,
    read_manifest,
)
from gpuguard.checkpoint.naming import is_checkpoint_id, is_job_name, partial_id
from gpuguard.checkpoint.ordering import (
    BROKEN,
    DURABLE,
    PARTIAL,
    Takeover,
    mark_outdated,
    newest_first,
)
from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.model.manifests import CheckpointInfo, Manifest
from gpuguard.model.plans import Finding

_MANIFEST_LIMIT = 256 * 1024 * 1024  # bytes; more than the hashes of a 60 TB image


def job_folder(store: str, job: str) -> Path:
    """Return where `store` keeps the checkpoints of `job`.

    Raises:
        UsageError: `job` cannot be a job's name, or the store's path is relative.
    """
    if not is_job_name(job):
        raise UsageError(f"{job!r} is no job name", "gpuguard jobs list shows the names")
    if not store.startswith("/"):
        raise UsageError(f"the store {store!r} is no absolute path", "correct it in the inventory")
    return Path(store) / job


def checkpoint_folder(store: str, job: str, checkpoint: str) -> Path:
    """Return where `store` keeps one checkpoint.

    Raises:
        UsageError: a name is none.
    """
    if not is_checkpoint_id(checkpoint):
        hint = f"gpuguard checkpoints list {job} shows the ids"
        raise UsageError(f"{checkpoint!r} is no checkpoint id", hint)
    return job_folder(store, job) / checkpoint


def require_store(store: str) -> Path:
    """Return the store's folder.

    Raises:
        GpuguardError: it is not there or cannot be read.
    """
    folder = Path(store)
    hint = "mount it, or correct the store's path in the inventory, then gpuguard doctor"
    try:
        if folder.is_dir():
            return folder
        reason = "it is not a folder" if folder.exists() else "it does not exist"
    except OSError as error:
        reason = str(error)
    raise GpuguardError(f"the store {store} cannot be used: {reason}", hint)


def list_checkpoints(store: str, job: Optional[str] = None) -> list[CheckpointInfo]:
    """Return what the store holds, of one job or of all, newest first by (epoch, sequence).

    Sizes are compared with the manifest, contents are not: verify_checkpoint does that.

    Raises:
        GpuguardError: the store cannot be read.
    """
    top = require_store(store)
    try:
        jobs = (
            [job] if job else sorted(item.name for item in top.iterdir() if is_job_name(item.name))
        )
        infos = [info for name in jobs for info in _list_job(store, name)]
    except OSError as error:
        raise GpuguardError(f"the store {store} cannot be read: {error}") from error
    return newest_first(infos)


def show_checkpoint(store: str, job: str, checkpoint: str) -> dict[str, Any]:
    """Return {"info", "manifest"} of one checkpoint; the manifest is null if unreadable.

    Raises:
        UsageError: the store does not hold it.
    """
    folder = _existing(store, job, checkpoint)
    manifest, _ = load_manifest(folder, checkpoint)
    return {
        "info": describe_checkpoint(folder, job).to_dict(),
        "manifest": manifest.to_dict() if manifest else None,
    }


def read_highest_epoch(store: str, job: str) -> Optional[dict[str, Any]]:
    """Return the highest epoch record of the job in the store, None before the first."""
    require_store(store)
    folder = job_folder(store, job)
    record = highest_epoch(folder)
    if record is None:
        return None
    return {**record.to_dict(), "void": is_void(folder, record.epoch)}


def job_uid(folder: Path) -> Optional[str]:
    """Return the uid of the job a store's folder belongs to, None if it is not said."""
    try:
        return (folder / "uid").read_text().strip() or None
    except FileNotFoundError:
        return None


def load_manifest(folder: Path, checkpoint: str) -> tuple[Optional[Manifest], list[Finding]]:
    """Read a folder's manifest, or say why it cannot be read."""
    try:
        data = json.loads(read_manifest_bytes(folder))
    except (OSError, ValueError) as error:
        return None, [finding("manifest-unreadable", checkpoint, f"manifest.json: {error}")]
    return read_manifest(data, checkpoint)


def read_manifest_bytes(folder: Path) -> bytes:
    """Return the manifest's bytes, never through a link.

    Raises:
        OSError: it is missing, a link or not a plain file.
        ValueError: it is too large to be one.
    """
    handle = os.open(folder / MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        data = file.read(_MANIFEST_LIMIT + 1)
    if len(data) > _MANIFEST_LIMIT:
        raise ValueError("too large for a manifest")
    return data


def check_shape(
    folder: Path, job: str, uid: Optional[str]
) -> tuple[Optional[Manifest], list[Finding]]:
    """Check all that can be checked without reading the images."""
    checkpoint = folder.name
    if folder.is_symlink() or not folder.is_dir():
        return None, [finding("checkpoint-link", checkpoint, f"{folder} is not a plain folder")]
    manifest, found = load_manifest(folder, checkpoint)
    if manifest is None:
        return None, found
    found = check_identity(manifest, checkpoint, job, uid) + check_paths(manifest, checkpoint)
    try:
        sizes = list_files(folder)
    except (OSError, ValueError) as error:
        return manifest, [*found, finding("file-odd", checkpoint, str(error))]
    found += check_listing(manifest, checkpoint, sizes) + check_images(manifest, checkpoint)
    if SIGNATURE not in sizes:
        found.append(finding("signature-missing", checkpoint, "the checkpoint has no signature"))
    return manifest, found


def describe_checkpoint(folder: Path, job: str) -> CheckpointInfo:
    """Return one line about a checkpoint's folder, whatever state it is in."""
    partial = partial_id(folder.name)
    if partial is not None:
        return _nameless(folder, job, partial, PARTIAL, "it was never completed")
    manifest, found = check_shape(folder, job, job_uid(folder.parent))
    if manifest is None:
        return _nameless(folder, job, folder.name, BROKEN, found[0].text)
    return CheckpointInfo(
        checkpoint=folder.name,
        job=job,
        uid=manifest.job.uid,
        host=manifest.host,
        epoch=manifest.epoch,
        sequence=manifest.sequence,
        frozen=manifest.times.frozen,
        durable=manifest.times.durable,
        bytes=manifest.bytes,
        path=str(folder),
        state=BROKEN if found else DURABLE,
        problem="; ".join(item.text for item in found) or None,
        notes=manifest.notes,
    )


def _list_job(store: str, job: str) -> list[CheckpointInfo]:
    folder = job_folder(store, job)
    if not folder.is_dir():
        return []
    names = sorted(item.name for item in folder.iterdir())
    kept = [name for name in names if is_checkpoint_id(name) or partial_id(name)]
    return mark_outdated(
        [describe_checkpoint(folder / name, job) for name in kept], _takeovers(folder)
    )


def _takeovers(folder: Path) -> list[Takeover]:
    claims = read_claims(folder)
    return [Takeover(it.epoch, it.host, it.sequence) for it in claims if it.sequence is not None]


def _existing(store: str, job: str, checkpoint: str) -> Path:
    folder = checkpoint_folder(store, job, checkpoint)
    if not folder.is_dir():
        hint = f"gpuguard checkpoints list {job} shows what there is"
        raise UsageError(f"the store {store} holds no checkpoint {checkpoint} of {job}", hint)
    return folder


def _nameless(folder: Path, job: str, checkpoint: str, state: str, problem: str) -> CheckpointInfo:
    return CheckpointInfo(
        checkpoint=checkpoint,
        job=job,
        uid=job_uid(folder.parent) or "",
        host="",
        epoch=0,
        sequence=0,
        frozen="",
        durable=None,
        bytes=_bytes_below(folder),
        path=str(folder),
        state=state,
        problem=problem,
    )


def _bytes_below(folder: Path) -> int:
    try:
        return sum(list_files(folder).values())
    except (OSError, ValueError):
        return 0
