"""The commit gate: while the tree is frozen, CRIU asks the runner whether the dump may count.

CRIU runs the script below after the images are written and before the job goes on. Script and
runner talk through two pipes whose far ends the runner alone holds: if the runner dies, the script
reads the end of the pipe instead of a yes, CRIU gives 255, and the job goes on as before.
"""

import os
import select
from dataclasses import dataclass
from pathlib import Path

# CRIU closes every descriptor of a script before it starts, but keeps its own: hence $PPID. And sh,
# not Python: a Python hook costs a small job as much again as the dump (39 ms for 22).
_SCRIPT = """\
#!/bin/sh
[ "$CRTOOLS_SCRIPT_ACTION" = post-dump ] || exit 0
echo frozen >/proc/$PPID/fd/{ask} || exit 1
answer=$(timeout {seconds} head -n 1 </proc/$PPID/fd/{answer})
[ "$answer" = commit ]
"""
_NAME = "gate.sh"
REFUSED = 255  # what criu exits with when the script says no


@dataclass
class Gate:
    """Both ends of the two pipes: the runner keeps `asked` and `reply`, CRIU gets the others."""

    asked: int
    reply: int
    ask: int
    answer: int
    script: Path

    def for_criu(self) -> tuple[int, ...]:
        """Return the descriptors CRIU must inherit."""
        return (self.ask, self.answer)

    def started(self) -> None:
        """Close what belongs to CRIU, so that its end shows as the end of the pipe."""
        os.close(self.ask)
        os.close(self.answer)
        self.ask = self.answer = -1

    def wait(self, seconds: float) -> str:
        """Wait for the question: `frozen`, `ended` (CRIU is done or dead), `silent` if overdue."""
        ready, _, _ = select.select([self.asked], [], [], seconds)
        if not ready:
            return "silent"
        return "frozen" if os.read(self.asked, 64) else "ended"

    def tell(self, commit: bool) -> None:
        """Answer the question; a CRIU that is gone is found by its exit code, not here."""
        try:
            os.write(self.reply, b"commit\n" if commit else b"no\n")
        except BrokenPipeError:
            return

    def close(self) -> None:
        """Close every end that is still open and remove the script."""
        for handle in (self.asked, self.reply, self.ask, self.answer):
            if handle >= 0:
                os.close(handle)
        self.asked = self.reply = self.ask = self.answer = -1
        self.script.unlink(missing_ok=True)


def open_gate(work: Path, seconds: int) -> Gate:
    """Make the pipes and the script in CRIU's working folder.

    The script waits `seconds` for an answer: longer than every check, so that only a runner that
    hangs is cut off.

    Raises:
        OSError: the folder cannot be written.
    """
    asked, ask = os.pipe()
    answer, reply = os.pipe()
    script = work / _NAME
    script.write_text(_SCRIPT.format(ask=ask, answer=answer, seconds=seconds))
    script.chmod(0o700)
    return Gate(asked=asked, reply=reply, ask=ask, answer=answer, script=script)


def hook_path() -> str:
    """Return the script's path as CRIU finds it: its current folder is the working folder.

    An absolute path would not do, because the job's mount namespace may not show the stage.
    """
    return f"./{_NAME}"
