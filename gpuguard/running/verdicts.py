"""Ask hosts, before anything is frozen or copied, what stands against a job on them."""

from dataclasses import dataclass, replace
from typing import Any

from gpuguard.model.codec import Record
from gpuguard.model.cordons import SITE, describe
from gpuguard.model.errors import GpuguardError, UnreachableError
from gpuguard.model.inventory import Host
from gpuguard.model.manifests import Manifest
from gpuguard.model.plans import Finding, Level
from gpuguard.planning.cordons import cordon_remedy
from gpuguard.planning.findings import refuse
from gpuguard.planning.views import FleetView, HostView, StoreView
from gpuguard.remote.outcome import Outcome
from gpuguard.remote.session import Session
from gpuguard.running.desk import Desk
from gpuguard.running.enrolling import allowed_signers

_WEIGHTY = (Level.ERROR, Level.WARNING)
_SECONDS = 120.0  # a host compares captured files byte by byte


@dataclass(frozen=True)
class Wanted:
    """What is to come back: a checkpoint, or None for the running job of the store view."""

    job: str
    checkpoint: str | None = None


def preflight(
    desk: Desk,
    host: str,
    job: str,
    levels: tuple[Level, ...] = _WEIGHTY,
    store: str | None = None,
) -> tuple[tuple[Finding, ...], Manifest | None]:
    """Return what stands against saving `job` where it runs, and what it needs elsewhere.

    `store` is for a job whose record on the host names none.

    Raises:
        GpuguardError: the host does not answer, or does not know the job.
    """
    answer = desk.session(host).call(
        "jobs.preflight", timeout=_SECONDS, name=job, host=host, store=store
    )
    found = tuple(Finding.from_dict(item) for item in answer["findings"])
    record = Manifest.from_dict(answer["record"]) if answer["record"] else None
    return tuple(item for item in found if item.level in levels), record


def with_verdicts(desk: Desk, fleet: FleetView, store: StoreView, wanted: Wanted) -> StoreView:
    """Return `store` with the verdict of every host that answers."""
    hosts = [desk.inventory.host(view.name) for view in fleet.hosts.values() if view.reachable]
    return replace(store, verdicts=ask_hosts(desk, hosts, store, wanted))


def ask_hosts(
    desk: Desk, hosts: list[Host], store: StoreView, wanted: Wanted
) -> dict[str, tuple[Finding, ...]]:
    """Return the verdict of each host, side by side; one that fails gives its reason as one."""
    if wanted.checkpoint is None and store.manifest is None:
        return {}
    params = _question(desk, store, wanted)
    outcomes = desk.pool.map(hosts, lambda host, session: _ask(session, host, params))
    return {name: _verdict(outcome) for name, outcome in outcomes.items()}


def _question(desk: Desk, store: StoreView, wanted: Wanted) -> dict[str, Any]:
    params: dict[str, Any] = {"store": store.path, "job": wanted.job}
    if wanted.checkpoint is not None:
        signers = allowed_signers(desk.folder)
        return {**params, "checkpoint": wanted.checkpoint, "allowed_signers": signers}
    return {**params, "record": store.manifest.to_dict() if store.manifest else None}


def _ask(session: Session, host: Host, params: dict[str, Any]) -> tuple[Finding, ...]:
    answer = session.call("checkpoints.judge", timeout=_SECONDS, host=host.name, **params)
    try:
        return tuple(Finding.from_dict(item) for item in answer)
    except ValueError as error:
        text = f"{host.name}: the agent's answer makes no sense: {error}"
        raise GpuguardError(text, f"gpuguard doctor {host.name}") from error


def _verdict(outcome: Outcome[tuple[Finding, ...]]) -> tuple[Finding, ...]:
    if outcome.error is None:
        return outcome.get()
    name = outcome.host.name
    text = outcome.error.message.removeprefix(f"{name}: ")
    return (refuse("host-not-judged", name, text, outcome.error.hint),)


@dataclass(frozen=True)
class HostVerdict(Record):
    """What one host says of taking a job over."""

    host: str
    fits: bool | None  # None: it did not answer, so nothing is known
    findings: tuple[Finding, ...] = ()
    error: dict[str, Any] | None = None


def host_verdicts(
    desk: Desk, fleet: FleetView, store: StoreView, wanted: Wanted
) -> list[HostVerdict]:
    """Return the verdict of every host of the view, silent ones included."""
    asked = with_verdicts(desk, fleet, store, wanted).verdicts
    return [_of_host(view, asked.get(view.name)) for view in fleet.hosts.values()]


def _of_host(view: HostView, found: tuple[Finding, ...] | None) -> HostVerdict:
    if not view.reachable:
        error = UnreachableError(f"{view.name}: {view.problem}", view.hint)
        return HostVerdict(view.name, None, _cordoned(view), error.to_dict())
    if found is None:
        return HostVerdict(view.name, None)
    found = (*_cordoned(view), *found)
    fits = not any(item.level is Level.ERROR for item in found)
    return HostVerdict(view.name, fits, found)


def _cordoned(view: HostView) -> tuple[Finding, ...]:
    """Return the cordons that the host itself cannot tell of."""
    return tuple(
        refuse("host-cordoned", view.name, f"it is {describe(cordon)}", cordon_remedy(view))
        for cordon in view.cordons
        if cordon.owner == SITE or not view.reachable
    )
