"""Before the agent answers anything: settle the past, fence stale copies, say hello."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import gpuguard
from gpuguard.agent.clock import boot_id
from gpuguard.agent.jobs.fencing import fence_stale
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures.recovery import recover_abandoned

PROTOCOL = 1


def greet(paths: NodePaths) -> dict[str, Any]:
    """Recover open procedures, stop stale copies, and return the hello line's content."""
    paths.prepare()
    recovered = recover_abandoned(paths)
    fenced = fence_stale(paths)
    return {
        "protocol": PROTOCOL,
        "version": gpuguard.__version__,
        "agent": _bundle_hash(),
        "host": os.uname().nodename,
        "boot_id": boot_id(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "pid": os.getpid(),
        "uid": os.getuid(),
        "recovered": recovered,
        "fenced": fenced,
    }


def _bundle_hash() -> str:
    """Return the hash the agent's folder is named after; empty where it runs from elsewhere."""
    name = Path(__file__).resolve().parents[2].name
    return name if re.fullmatch(r"[0-9a-f]{64}", name) else ""
