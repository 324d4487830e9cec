"""Examine one job: what would stop its checkpoint, and which hosts could take it over."""

from dataclasses import dataclass, replace

from gpuguard.checkpoint.ordering import newest_durable
from gpuguard.model.codec import Record
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.plans import Finding, Level
from gpuguard.planning.findings import warn
from gpuguard.planning.views import FleetView, StoreView
from gpuguard.running.desk import Desk
from gpuguard.running.jobs import find
from gpuguard.running.locating import locate
from gpuguard.running.policies import store_now
from gpuguard.running.stores import view_store, with_manifest
from gpuguard.running.verdicts import HostVerdict, Wanted, host_verdicts, preflight


@dataclass(frozen=True)
class JobReport(Record):
    """What was found about one job."""

    job: str
    host: str
    findings: tuple[Finding, ...]
    checkpoint: str | None  # what the hosts were judged by; None: the running job itself
    verdicts: tuple[HostVerdict, ...]

    @property
    def exit_code(self) -> ExitCode:
        """Return 1 when the job cannot be saved as it is."""
        bad = any(item.level is Level.ERROR for item in self.findings)
        return ExitCode.FAILED if bad else ExitCode.OK


def examine_job(desk: Desk, job: str) -> JobReport:
    """Look at the job where it runs and at every other host; changes nothing.

    Raises:
        GpuguardError: no host that answers knows the job, or its host stopped answering.
    """
    place = find(desk, job)
    path = store_now(desk.inventory, place.job)
    levels = (Level.ERROR, Level.WARNING, Level.INFO)
    found, record = preflight(desk, place.host, job, levels, path)
    others = locate(desk).without(place.host)
    store = view_store(desk, others, job, path) if path else StoreView("")
    store, wanted = replace(store, manifest=record), Wanted(job)
    if record is None:
        store, wanted = _saved(desk, store, job)
    verdicts = tuple(host_verdicts(desk, others, store, wanted)) if path else ()
    found += _nowhere(job, others, verdicts)
    return JobReport(job, place.host, found, wanted.checkpoint, verdicts)


def _saved(desk: Desk, store: StoreView, job: str) -> tuple[StoreView, Wanted]:
    newest = newest_durable(store.checkpoints, store.holder.uid if store.holder else None)
    if newest is None:
        return store, Wanted(job)
    return with_manifest(desk, store, job, newest.checkpoint), Wanted(job, newest.checkpoint)


def _nowhere(job: str, others: FleetView, verdicts: tuple[HostVerdict, ...]) -> tuple[Finding, ...]:
    if any(verdict.fits for verdict in verdicts):
        return ()
    count = len(others.hosts)
    text = (
        f"none of the {count} other hosts could take it over" if count else "there is no other host"
    )
    return (warn("no-target", job, text),)
