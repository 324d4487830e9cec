"""The command line's frame: find the command, run it, say how it ended."""

import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

from gpuguard import __version__
from gpuguard.model.exit_codes import ExitCode

_terminated = False


def run(argv: list[str] | None = None) -> NoReturn:
    """Run the command line `argv` (the process's own by default) and exit with its code."""
    words = sys.argv[1:] if argv is None else argv
    if words in (["--version"], ["-V"]):
        sys.stdout.write(f"gpuguard {__version__}\n")
        sys.exit(ExitCode.OK)
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(_finish(_guarded(words)))


def _guarded(words: list[str]) -> int:
    from gpuguard.commands.failures import report
    from gpuguard.commands.frame import invoke

    try:
        return invoke(words)
    except KeyboardInterrupt:
        sys.stderr.write("terminated\n" if _terminated else "interrupted\n")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return _reader_went_away()
    except Exception as error:  # every failure becomes one line and one code here
        try:
            return report(error, words)
        except BrokenPipeError:
            return _reader_went_away()


def _finish(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_went_away()
    return ExitCode.TERMINATED if _terminated else code


def _reader_went_away() -> int:
    # The interpreter flushes stdout once more at exit: give it somewhere to write.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.FAILED


def _terminate(number: int, frame: FrameType | None) -> None:
    """Take SIGTERM the way Ctrl-C is taken, so that clean-up runs; remember which it was."""
    global _terminated
    del number, frame
    _terminated = True
    raise KeyboardInterrupt


def __getattr__(name: str) -> Any:
    if name == "app":
        from gpuguard.commands.frame import app

        return app
    raise AttributeError(name)
