"""Know a store again: an empty mount point must not pass for the store that belongs there."""

import secrets
from pathlib import Path
from typing import Optional

from gpuguard.agent.disk import read_json, write_json, write_once
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.store.reading import require_store
from gpuguard.model.errors import RefusedError

_NAME = ".store-id"


def recognise_store(paths: NodePaths, store: str) -> None:
    """Check that `store` is the one this node used under that path before, and remember it.

    Raises:
        RefusedError: it is another one, most likely because it is not mounted.
        GpuguardError: it is not there.
        OSError: it is full or read-only, and has no id yet.
    """
    require_same_store(paths, store)
    folder = require_store(store)
    if _read_id(folder) is None:
        write_once(folder / _NAME, secrets.token_hex(16) + "\n")
    known = read_json(paths.stores) or {}
    if store not in known:
        write_json(paths.stores, {**known, store: _read_id(folder)})


def require_same_store(paths: NodePaths, store: str) -> None:
    """Check that `store`, if this node has used it before, is the one that was there then.

    Raises:
        RefusedError: it is another one, most likely because it is not mounted.
        GpuguardError: it is not there.
    """
    known = (read_json(paths.stores) or {}).get(store)
    if known is None:
        return
    found = _read_id(require_store(store))
    if found != known:
        raise _strange(paths, store, found)


def _read_id(folder: Path) -> Optional[str]:
    try:
        return (folder / _NAME).read_text().strip() or None
    except FileNotFoundError:
        return None


def _strange(paths: NodePaths, store: str, found: Optional[str]) -> RefusedError:
    what = "another store is mounted there" if found else "it is not mounted"
    return RefusedError(
        f"{store} is not the store that was there before: {what}; "
        "a checkpoint in it would not outlive this host",
        f"mount the store, then gpuguard doctor; if it is new on purpose: rm {paths.stores}",
        {"reason": "store-changed", "store": store},
    )
