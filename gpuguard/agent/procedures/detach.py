"""Start processes that outlive this login: a transient unit under systemd, else a new session."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Optional

from gpuguard.agent.paths import NodePaths
from gpuguard.model.errors import GpuguardError

_START_SECONDS = 30.0


def systemd_runs() -> bool:
    """Tell whether systemd is this node's service manager (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()


def agent_argv(*words: str) -> tuple[str, ...]:
    """Return the command line that starts this same agent with other words."""
    main = Path(__file__).resolve().parents[1] / "main.py"
    return (sys.executable, "-IS", str(main), *words)


def unit_argv(unit: str, root: Path, command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the systemd-run line for a service of its own around `command`.

    KillMode=process: when the main process ends, the supervisor of a restored job goes on.
    Delegate=yes: one process killed for memory does not make systemd end the others. No property
    is newer than systemd 239, which nodes still run.
    """
    return (
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={unit}",
        "--property=KillMode=process",
        "--property=SendSIGKILL=no",
        "--property=Delegate=yes",
        f"--setenv=GPUGUARD_NODE_ROOT={root}",
        "--",
        *command,
    )


def scope_argv(unit: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the systemd-run line that keeps `command` as our child, in a scope of its own."""
    return (
        "systemd-run",
        "--quiet",
        "--collect",
        "--scope",
        f"--unit={unit}",
        "--property=Delegate=yes",
        "--",
        *command,
    )


def start_watchdog(paths: NodePaths, word: str, procedure_id: str) -> None:
    """Start `watchdog` or `recover` for a procedure, detached; it logs to runner.log.

    Raises:
        GpuguardError: the process could not be started.
    """
    log = paths.procedure(procedure_id) / "runner.log"
    if systemd_runs():
        unit = f"gpuguard-{word}-{procedure_id}-{os.urandom(2).hex()}"
        command = agent_argv(word, procedure_id, str(log))
        _start(unit_argv(unit, paths.root, command), paths, log)
    else:
        _start(agent_argv(word, procedure_id, str(log), "--fork"), paths, log)


def _start(command: tuple[str, ...], paths: NodePaths, log: Path) -> None:
    environment = {**os.environ, "GPUGUARD_NODE_ROOT": str(paths.root)}
    reason: Optional[str] = None
    with log.open("ab") as output:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd="/",
                start_new_session=True,
                timeout=_START_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
        else:
            reason = f"exit {done.returncode}" if done.returncode else None
    if reason:
        raise GpuguardError(
            f"cannot start the procedure: {reason}: {_last_line(log)}", f"read {log} on the node"
        )


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")
