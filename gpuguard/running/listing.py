"""Collect what hosts report into items, errors and one exit code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuguard.model.errors import UnreachableError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.planning.views import FleetView
from gpuguard.running.desk import Desk
from gpuguard.running.locating import locate


@dataclass(frozen=True)
class Seen:
    """Items in order, errors of the hosts that failed, and what the command says to the shell."""

    items: tuple[dict[str, Any], ...]
    errors: tuple[dict[str, Any], ...]
    exit_code: ExitCode


def list_jobs(desk: Desk, hosts: Sequence[str] | None) -> Seen:
    """Return the jobs of `hosts` (all by default); 3 if some did not answer, 4 if none did."""
    fleet = locate(desk, hosts, facts=False)
    items = tuple(
        {"host": view.name, **job.to_dict()} for view in fleet.hosts.values() for job in view.jobs
    )
    return Seen((*items,), errors_of(fleet), code_of(fleet))


def errors_of(fleet: FleetView) -> tuple[dict[str, Any], ...]:
    """Return one error for each host that did not answer, as JSON prints it."""
    return tuple(
        {**UnreachableError(f"{view.name}: {view.problem}", view.hint).to_dict(), "host": view.name}
        for view in fleet.unreachable()
    )


def code_of(fleet: FleetView) -> ExitCode:
    """Return 0 if every host answered, 4 if none did, 3 otherwise."""
    silent = len(fleet.unreachable())
    if silent == 0:
        return ExitCode.OK
    return ExitCode.UNREACHABLE if silent == len(fleet.hosts) else ExitCode.PARTIAL
