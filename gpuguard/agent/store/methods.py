"""`store.*` as the wire calls them."""

import time
from typing import Any

from gpuguard.agent.arguments import take
from gpuguard.agent.methods import Emit
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.store.attempts import read_lease
from gpuguard.agent.store.identity import require_same_store
from gpuguard.agent.store.reading import list_checkpoints, read_highest_epoch, show_checkpoint
from gpuguard.agent.store.verify import verify_checkpoint
from gpuguard.agent.store.write import remove_checkpoint
from gpuguard.model.manifests import CheckpointInfo
from gpuguard.model.plans import Finding

_REPORT_SECONDS = 0.2


def list_all(params: dict[str, Any], emit: Emit) -> list[CheckpointInfo]:
    """Answer `store.list`."""
    return list_checkpoints(_store(params), params.get("job"))


def show(params: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Answer `store.show`."""
    return show_checkpoint(*_which(params))


def verify(params: dict[str, Any], emit: Emit) -> list[Finding]:
    """Answer `store.verify`, reporting bytes done and in all meanwhile."""
    last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _REPORT_SECONDS or done == total:
            last = time.monotonic()
            emit({"done": done, "total": total})

    return verify_checkpoint(*_which(params), take(params, "allowed_signers", str), report)


def remove(params: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Answer `store.remove`."""
    remove_checkpoint(*_which(params), force=take(params, "force", bool, False))
    return {}


def epoch(params: dict[str, Any], emit: Emit) -> Any:
    """Answer `store.epoch`."""
    return read_highest_epoch(_store(params), take(params, "job", str))


def _store(params: dict[str, Any]) -> str:
    """Return the store's path; an empty mount point is not asked what it holds."""
    store: str = take(params, "store", str)
    require_same_store(NodePaths(), store)
    return store


def lease(params: dict[str, Any], emit: Emit) -> Any:
    """Answer `store.lease`."""
    return read_lease(take(params, "store", str), take(params, "job", str))


def _which(params: dict[str, Any]) -> tuple[str, str, str]:
    return (
        _store(params),
        take(params, "job", str),
        take(params, "checkpoint", str),
    )
