"""The command line's frame: find the command, run it, say how it ended."""

import gc
import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

from gpuguard import __version__
from gpuguard.model.exit_codes import ExitCode

# Imports make many objects and no garbage: looking for it every 700 of them costs 5 % of a start.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000

_terminated = False


def run(argv: list[str] | None = None) -> NoReturn:
    """Run the command line `argv` (the process's own by default) and exit with its code."""
    words = sys.argv[1:] if argv is None else argv
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    signal.signal(signal.SIGTERM, _terminate)
    code = _guarded(words)
    sys.exit(ExitCode.TERMINATED if _terminated else code)


def _guarded(words: list[str]) -> int:
    try:
        code = _invoke(words)
        sys.stdout.flush()  # here, where a full disk is still an error like any other
        return code
    except KeyboardInterrupt:
        sys.stderr.write("terminated\n" if _terminated else "interrupted\n")
        _drop_unwritable()
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _drop_unwritable()
        return ExitCode.FAILED
    except Exception as error:  # every failure becomes one line and one code here
        return _report(error, words)


def _report(error: Exception, words: list[str]) -> int:
    from gpuguard.commands.failures import report

    in_words: list[str] = []  # asks for no JSON: the error goes to stderr
    try:
        code = report(error, in_words if _drop_unwritable() else words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_unwritable()
        return ExitCode.FAILED
    except OSError:  # the error as JSON found no room
        _drop_unwritable()
        return report(error, in_words)


def _invoke(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):  # answered before anything is imported
        sys.stdout.write(f"gpuguard {__version__}\n")
        return ExitCode.OK
    from gpuguard.commands.frame import invoke

    return invoke(words)


def _drop_unwritable() -> bool:
    """Say whether stdout takes no more; then it leads nowhere, as it is flushed again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


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
