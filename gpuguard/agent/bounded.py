"""Run a child that may hang: at its deadline it is killed, and left alone if even that hangs."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

_REAP_SECONDS = 0.5


@dataclass(frozen=True)
class Ended:
    """What a child said and how it ended; `code` is None when its deadline passed."""

    code: Optional[int]
    out: str
    err: str

    @property
    def text(self) -> str:
        """The last line it wrote, on stderr before stdout."""
        lines = [line for line in (self.out + "\n" + self.err).splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it said nothing"


def run_bounded(command: Sequence[str], seconds: float) -> Ended:
    """Run `command` for at most `seconds`, without input.

    A child in the kernel's grip (a dead disk or file server) does not even end when killed:
    it is not waited for. Raises OSError if the command cannot be started.
    """
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        _reap(child)
        return Ended(None, "", "")
    return Ended(child.returncode, out, err)


def _reap(child: "subprocess.Popen[str]") -> None:
    try:
        child.communicate(timeout=_REAP_SECONDS)
    except subprocess.TimeoutExpired:
        for pipe in (child.stdout, child.stderr):
            if pipe:
                pipe.close()
