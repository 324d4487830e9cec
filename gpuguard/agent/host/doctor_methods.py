"""`host.doctor` and `store.mark` as the wire calls them."""

from pathlib import Path
from typing import Any

from gpuguard.agent.arguments import take
from gpuguard.agent.host.doctor import diagnose
from gpuguard.agent.methods import Emit
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.store.marks import mark_store
from gpuguard.model.plans import Finding


def doctor(params: dict[str, Any], emit: Emit) -> list[Finding]:
    """Answer `host.doctor`."""
    del emit
    paths = NodePaths()
    store = take(params, "store", str, "")
    stage = Path(take(params, "stage", str, str(paths.stage)))
    return diagnose(paths, stage, Path(store) if store else None)


def mark(params: dict[str, Any], emit: Emit) -> dict[str, bool]:
    """Answer `store.mark`."""
    del emit
    words = (take(params, "token", str), take(params, "action", str))
    return {"there": mark_store(Path(take(params, "store", str)), *words)}
