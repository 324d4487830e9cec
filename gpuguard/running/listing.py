"""Collect what hosts report into items, errors and one exit code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuguard.model.errors import UnreachableError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.jobs import JobState
from gpuguard.planning.views import LIVE, FleetView
from gpuguard.running.desk import Desk
from gpuguard.running.locating import locate

_OLD = frozenset({JobState.MOVED, JobState.LOST, JobState.STALE})


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


def without_old(items: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Return `items` without what hosts remember of copies of a job that lives elsewhere now."""
    living: dict[str, int] = {}
    for item in items:
        if JobState(item["state"]) in LIVE:
            name = item["spec"]["name"]
            living[name] = max(item["epoch"], living.get(name, 0))
    return tuple(
        item
        for item in items
        if JobState(item["state"]) not in _OLD
        or item["epoch"] >= living.get(item["spec"]["name"], 0)
    )


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
