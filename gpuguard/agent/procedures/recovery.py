"""Settle what an earlier crash or power cut left open, before anything new is done."""

import time
from pathlib import Path
from typing import Optional

from gpuguard.agent.locks import is_locked
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures import records
from gpuguard.agent.procedures.detach import start_watchdog

_POLL_SECONDS = 0.02
WAIT_SECONDS = 20.0


def recover_abandoned(
    paths: NodePaths, job: Optional[str] = None, wait: float = WAIT_SECONDS
) -> list[str]:
    """Recover every open procedure nobody is at work on, of `job` if given; return their ids.

    The work is done by detached processes and waited for, at most `wait` seconds for all.
    """
    abandoned = [folder for folder in records.open_folders(paths) if _is_abandoned(folder, job)]
    for folder in abandoned:
        start_watchdog(paths, "recover", folder.name)
    deadline = time.monotonic() + wait
    for folder in abandoned:
        while not (folder / "result.json").exists() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    return [folder.name for folder in abandoned]


def _is_abandoned(folder: Path, job: Optional[str]) -> bool:
    if is_locked(folder / "lock") or not (folder / "journal.jsonl").exists():
        return False
    return job is None or records.read_request(folder).params.get("job") == job
