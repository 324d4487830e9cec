"""The one table of exit codes (docs/exit-codes.md)."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a gpuguard command says to the shell that ran it."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PARTIAL = 3
    UNREACHABLE = 4
    REFUSED = 5
    BUSY = 75  # EX_TEMPFAIL of sysexits.h: try again later
    INTERRUPTED = 130
    TERMINATED = 143
