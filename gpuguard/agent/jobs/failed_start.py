"""What a start that came to nothing leaves behind: its reason in the error, and nothing else."""

import shutil
from pathlib import Path
from typing import Optional

from gpuguard.agent import processes
from gpuguard.agent.disk import write_synced
from gpuguard.agent.jobs.supervision import end_supervised, find_supervisor
from gpuguard.model.errors import GpuguardError

_GONE_SECONDS = 5.0
_WORDS = 4000
_RECORDS = ("job.json", "status")


class Before:
    """A job's folder as it was before the start; the caller holds the job's lock."""

    def __init__(self, folder: Path, same_request: bool) -> None:
        """Remember the folder; what `same_request` left when it was cut off counts as nothing."""
        self._folder = folder
        self._records = {} if same_request else {name: _read(folder / name) for name in _RECORDS}
        self._log = folder / "supervisor.log"
        self._said = self._log.stat().st_size if self._log.exists() else 0

    def undo(self, error: Exception) -> None:
        """Remove the folder of a job that never started, or give an earlier job its record back.

        What the supervisor said is kept in the error, since its log may go with the folder. A
        folder in which a supervisor still lives stays, so that it can be found.
        """
        ended = self._wait_for_end()
        if isinstance(error, GpuguardError) and (words := self._last_words()):
            error.details["supervisor_log"] = words
        if ended:
            self._put_back()

    def _wait_for_end(self) -> bool:
        supervisor = find_supervisor(self._folder)
        if supervisor is None or processes.wait_gone(supervisor, _GONE_SECONDS):
            return True
        end_supervised(supervisor)
        return processes.wait_gone(supervisor, _GONE_SECONDS)

    def _put_back(self) -> None:
        if not self._records.get("job.json") and not (self._folder / "gone").exists():
            # Another run may wait for the lock in it and make the file anew: then it stays, empty.
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        for name in _RECORDS:
            data = self._records.get(name)
            if data is None:
                (self._folder / name).unlink(missing_ok=True)
            else:
                write_synced(self._folder / name, data)

    def _last_words(self) -> str:
        data = _read(self._log) or b""
        return data[self._said :].decode(errors="replace").strip()[-_WORDS:]


def _read(path: Path) -> Optional[bytes]:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
