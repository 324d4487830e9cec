"""Verify a checkpoint completely: shape, signature, every byte."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Callable, Optional

from gpuguard.agent.store.hashing import hash_files
from gpuguard.agent.store.reading import (
    check_shape,
    checkpoint_folder,
    job_uid,
    read_manifest_bytes,
)
from gpuguard.agent.store.signature import check_signature
from gpuguard.checkpoint.manifest_checks import SIGNATURE, finding
from gpuguard.model.errors import UsageError
from gpuguard.model.manifests import FileHash, Manifest
from gpuguard.model.plans import Finding

Report = Callable[[int, int], None]  # bytes done, bytes in all


def verify_checkpoint(
    store: str, job: str, checkpoint: str, allowed_signers: str, report: Report
) -> list[Finding]:
    """Return everything that is wrong with a checkpoint; an empty list means verified.

    `allowed_signers` is the text of the operator's file, see ssh-keygen(1).

    Raises:
        UsageError: the store does not hold it.
    """
    folder = checkpoint_folder(store, job, checkpoint)
    if not os.path.lexists(folder):
        hint = f"gpuguard checkpoints list {job} shows what there is"
        raise UsageError(f"the store {store} holds no checkpoint {checkpoint} of {job}", hint)
    _, found = examine_folder(folder, job, allowed_signers, report, job_uid(folder.parent))
    return found


def examine_folder(
    folder: Path, job: str, allowed_signers: str, report: Report, uid: Optional[str]
) -> tuple[Optional[Manifest], list[Finding]]:
    """Verify the checkpoint in `folder`; bytes are read only if all the rest is in order."""
    manifest, found = check_shape(folder, job, uid)
    if manifest is None:
        return None, found
    if not any(item.code == "signature-missing" for item in found):
        signature = folder / SIGNATURE
        data = read_manifest_bytes(folder)
        found += check_signature(data, signature, manifest.host, allowed_signers)
    if not found:
        found += _check_bytes(folder, manifest, report)
    return manifest, found


def read_ahead(folder: Path, files: Sequence[FileHash]) -> None:
    """Ask the kernel to read the images before they are needed; only a hint."""
    for item in files:
        handle = os.open(folder / item.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(handle)


def _check_bytes(folder: Path, manifest: Manifest, report: Report) -> list[Finding]:
    done, lock = 0, threading.Lock()

    def count(size: int) -> None:
        nonlocal done
        with lock:
            done += size
            report(done, manifest.bytes)

    try:
        read_ahead(folder, manifest.files)
        wrong = hash_files(folder, manifest.files, count)
    except OSError as error:
        text = f"the checkpoint cannot be read: {error}"
        return [finding("file-unreadable", folder.name, text)]
    return [
        finding("file-hash", folder.name, f"{path} was changed: its hash differs from the manifest")
        for path in wrong
    ]
