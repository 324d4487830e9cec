"""Make whole, signed checkpoints in a store, as the copy and publish steps do."""

from pathlib import Path
from typing import Any

from gpuguard.agent.store.hashing import copy_folder
from gpuguard.agent.store.signature import ensure_key, public_key
from gpuguard.agent.store.write import (
    claim_job_folder,
    make_partial,
    publish_partial,
    seal_partial,
)
from gpuguard.checkpoint.naming import make_checkpoint_id
from tests.unit.agent.checkpoints import JOB, UID, draft


def publish(store: Path, keys: Path, stage: Path, **changes: Any) -> Path:
    """Publish a checkpoint and return its folder."""
    checkpoint = make_checkpoint_id()
    folder = claim_job_folder(str(store), JOB, UID)
    partial = make_partial(folder, checkpoint)
    hashes = copy_folder(stage, partial, lambda size: None)
    total = sum(item.size for item in hashes)
    manifest = draft(checkpoint, files=hashes, bytes=total, **changes)
    seal_partial(partial, manifest, ensure_key(keys))
    return publish_partial(partial, checkpoint)


def signers(keys: Path, host: str = "h1") -> str:
    """Return an allowed_signers file that knows `host` by the key below `keys`."""
    words = public_key(keys).split()
    return f'{host} namespaces="gpuguard-manifest" {words[0]} {words[1]}\n'
