"""Change a store: claim a job's folder in it, publish a checkpoint, remove one."""

import json
import os
import shutil
import tempfile
from pathlib import Path

from gpuguard.agent.disk import write_once
from gpuguard.agent.store.hashing import sync_path
from gpuguard.agent.store.reading import (
    checkpoint_folder,
    job_folder,
    job_uid,
    list_checkpoints,
    require_store,
)
from gpuguard.agent.store.signature import sign_manifest
from gpuguard.checkpoint.manifest_checks import MANIFEST
from gpuguard.checkpoint.naming import partial_name
from gpuguard.checkpoint.ordering import is_last_durable
from gpuguard.model.errors import GpuguardError, RefusedError, UsageError
from gpuguard.model.manifests import Manifest

_FOLDER_MODE = 0o700


def claim_job_folder(store: str, job: str, uid: str) -> Path:
    """Return the job's folder in the store, made and marked with `uid` if it is new.

    Raises:
        RefusedError: the folder belongs to another job of that name, or the store is full or
            read-only.
        GpuguardError: the store is gone.
    """
    require_store(store)
    folder = job_folder(store, job)
    try:
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        if job_uid(folder) is None:
            write_once(folder / "uid", uid + "\n")
        probe_folder(folder)
        sync_path(folder.parent)
    except OSError as error:
        raise unwritable(store, error) from error
    owner = job_uid(folder)
    if owner != uid:
        raise RefusedError(
            f"{folder} belongs to another job that was also called {job} (uid {owner})",
            f"give this job another name, or move {folder} away",
        )
    return folder


def make_partial(folder: Path, checkpoint: str) -> Path:
    """Make the folder in which a checkpoint of the job's `folder` is written.

    Raises:
        OSError: the store is full, read-only or gone.
    """
    partial = folder / partial_name(checkpoint)
    partial.mkdir(mode=_FOLDER_MODE)
    return partial


def seal_partial(partial: Path, manifest: Manifest, key: Path) -> None:
    """Write and sign the manifest, the last files of a checkpoint, and sync them.

    Raises:
        OSError: the store is full, read-only or gone.
        GpuguardError: signing failed.
    """
    text = json.dumps(manifest.to_dict(), indent=1).encode()
    handle = os.open(partial / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    sign_manifest(key, partial)
    sync_path(partial)


def publish_partial(partial: Path, checkpoint: str) -> Path:
    """Give a sealed checkpoint its name; from then on it is durable.

    Raises:
        OSError: the store is read-only or gone, or has that checkpoint already.
    """
    final = partial.parent / checkpoint
    if final.exists() and not partial.exists():
        return final  # done before we were cut off
    if final.exists():
        raise FileExistsError(f"{final} exists already")
    partial.rename(final)
    sync_path(final.parent)
    return final


def remove_checkpoint(store: str, job: str, checkpoint: str, force: bool = False) -> None:
    """Remove one checkpoint, complete or not.

    Raises:
        UsageError: the store does not hold it.
        RefusedError: it is the job's last durable one and `force` is not given.
        GpuguardError: the store refuses.
    """
    final = checkpoint_folder(store, job, checkpoint)
    partial = final.with_name(partial_name(checkpoint))
    here = [folder for folder in (final, partial) if os.path.lexists(folder)]
    if not here:
        hint = f"gpuguard checkpoints list {job} shows what there is"
        raise UsageError(f"the store {store} holds no checkpoint {checkpoint} of {job}", hint)
    if not force and is_last_durable(list_checkpoints(store, job), checkpoint):
        raise RefusedError(
            f"{checkpoint} is the last durable checkpoint of {job}: without it nothing of the job "
            "is left when its host fails",
            "take another checkpoint first, or say --force",
        )
    try:
        for folder in here:
            remove_folder(folder)
    except OSError as error:
        raise store_error(store, error) from error


def remove_folder(folder: Path) -> None:
    """Remove a checkpoint's folder so that a half removed one never looks complete.

    Raises:
        OSError: it cannot be removed.
    """
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink()
        return
    # Without a manifest it counts as broken, whatever else is still there when we are cut off.
    (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder)
    sync_path(folder.parent)


def store_error(store: str, error: OSError) -> GpuguardError:
    """Say what a refusing store means for the job: nothing is lost."""
    hint = f"free or mount the store, then gpuguard doctor; the job is not touched ({store})"
    return GpuguardError(f"the store {store} cannot be written: {error.strerror or error}", hint)


def unwritable(store: str, error: OSError) -> RefusedError:
    """Say before anything was done that the store refuses."""
    told = store_error(store, error)
    return RefusedError(told.message, told.hint, told.details)


def probe_folder(folder: Path) -> None:
    """Find out now, not halfway, that the store cannot be written.

    Raises:
        OSError: it cannot.
    """
    handle, temporary = tempfile.mkstemp(prefix=".probe-", dir=folder)
    try:
        os.write(handle, b"gpuguard\n")
        os.fsync(handle)
    finally:
        os.close(handle)
        Path(temporary).unlink()
