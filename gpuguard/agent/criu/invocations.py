"""The exact CRIU invocations; each was tried over three generations of moves."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from gpuguard.agent.criu.gate import hook_path
from gpuguard.model.errors import RefusedError

_VERSION = re.compile(r"Version: ([0-9]+(?:\.[0-9]+)*)")
_KERNEL = re.compile(r"\A([0-9]+)\.([0-9]+)")
# From this kernel on, an older CRIU cannot dump any process that holds one inet socket.
_PICKY_KERNEL = (6, 16)
_LEAST_ON_PICKY = (4, 2)
_LEAST = (4, 0)
_SECONDS = 20.0


@dataclass(frozen=True)
class DumpOrder:
    """What one dump needs; the numbers `images`, `work` and `plugins` are descriptors.

    Descriptors and not paths, because a job's mount namespace may not show the stage.
    """

    root: int  # the job's first process, as numbered in the namespace CRIU runs in
    supervisor: Optional[int]  # None: the job lives in the host's namespaces
    images: int
    work: int
    plugins: int
    ghost_limit: int  # bytes
    shell_job: bool
    leave_stopped: bool


def lasting_options(shell_job: bool) -> tuple[str, ...]:
    """Return the options that a dump and every restore of it must share."""
    shell = ("--shell-job",) if shell_job else ()
    return ("--manage-cgroups=ignore", "--tcp-close", "--file-locks", *shell)


def dump_command(order: DumpOrder) -> tuple[str, ...]:
    """Return the command of a dump."""
    enter: tuple[str, ...] = ()
    if order.supervisor is not None:
        # Not -i: CRIU then saves the IPC namespace and makes a new one at restore.
        enter = ("nsenter", "-t", str(order.supervisor), "-p", "-m")
    end = "--leave-stopped" if order.leave_stopped else "--leave-running"
    return (
        *enter,
        *("criu", "dump", "-t", str(order.root), *_folders(order.images, order.work, "dump")),
        *("--no-default-config", "--libdir", _handle(order.plugins)),
        *lasting_options(order.shell_job),
        *("--ghost-limit", str(order.ghost_limit)),
        *("--action-script", hook_path(), end),
    )


def restore_command(
    images: str, work: str, plugins: str, pid_file: str, options: Sequence[str]
) -> tuple[str, ...]:
    """Return the command of a restore into fresh namespaces, the tree left stopped.

    The folders are paths: the new mount namespace is a copy of the host's.
    """
    return (
        *("criu", "restore", "-D", images, "-W", work, "-o", "restore.log", "-v4"),
        *("--no-default-config", "--libdir", plugins, *options),
        *("-d", "--restore-sibling", "--leave-stopped", "--pidfile", pid_file),
    )


def criu_version() -> Optional[str]:
    """Return CRIU's version, None where it is not installed or does not start."""
    try:
        done = subprocess.run(
            ("criu", "--version"),
            capture_output=True,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stdout.decode(errors="replace"))
    return match.group(1) if match else None


def judge_version(version: Optional[str], kernel: str) -> Optional[str]:
    """Return why this CRIU cannot be used on this kernel, None if it can."""
    if version is None:
        return "CRIU is not installed, or does not start"
    have = _numbers(version)
    match = _KERNEL.match(kernel)
    picky = match is not None and (int(match.group(1)), int(match.group(2))) >= _PICKY_KERNEL
    if picky and have < _LEAST_ON_PICKY:
        return f"CRIU {version} cannot save network sockets on kernel {kernel}: 4.2 is needed"
    if have < _LEAST:
        return f"CRIU {version} is too old: 4.0 is needed"
    return None


def require_criu(kernel: str, host: str) -> str:
    """Return CRIU's version.

    Raises:
        RefusedError: there is none here, or it is too old for the kernel.
    """
    version = criu_version()
    problem = judge_version(version, kernel)
    if problem is not None or version is None:
        hint = f"install criu 4.2 or newer on {host}, then gpuguard doctor {host}"
        raise RefusedError(f"{host}: {problem}", hint)
    return version


def _folders(images: int, work: int, verb: str) -> tuple[str, ...]:
    return ("-D", _handle(images), "-W", _handle(work), "-o", f"{verb}.log", "-v4")


def _handle(number: int) -> str:
    return f"/proc/self/fd/{number}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
