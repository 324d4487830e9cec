"""Look after checkpoints in their stores, through hosts that reach them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuguard.checkpoint.ordering import is_last_durable, newest_durable
from gpuguard.model.codec import Record
from gpuguard.model.errors import GpuguardError, RefusedError
from gpuguard.model.exit_codes import ExitCode
from gpuguard.model.inventory import Host
from gpuguard.model.plans import Finding
from gpuguard.planning.views import FleetView, StoreView
from gpuguard.remote.session import Session
from gpuguard.running.desk import Desk
from gpuguard.running.enrolling import allowed_signers
from gpuguard.running.listing import Seen, code_of, errors_of
from gpuguard.running.locating import locate
from gpuguard.running.stores import find_store, seeing_host, store_paths
from gpuguard.running.verdicts import HostVerdict, Wanted, host_verdicts

_VERIFY_SECONDS = 6 * 3600.0  # only a limit against waiting for ever; silence ends it much earlier


@dataclass(frozen=True)
class Verified(Record):
    """What a check of one checkpoint found; no findings means that all is right."""

    job: str
    checkpoint: str
    host: str
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> ExitCode:
        """Return 0 when it may be restored, 5 when it would be refused."""
        return ExitCode.REFUSED if self.findings else ExitCode.OK


def list_all(desk: Desk, job: str | None) -> Seen:
    """Return the checkpoints of one job or of all, from every store of the inventory.

    Each store is read through one host that reaches it. Hosts that do not answer are errors only
    if a store could not be read at all.
    """
    fleet = locate(desk, facts=False)
    items: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    for path in store_paths(desk, fleet, job) if job else _paths(desk, fleet):
        try:
            items += _list(desk, fleet, path, job)
        except GpuguardError as error:
            errors.append({**error.to_dict(), "host": None, "store": path})
    if not errors:
        return Seen(tuple(items), (), ExitCode.OK)
    code = code_of(fleet) or (ExitCode.PARTIAL if items else ExitCode.FAILED)
    return Seen(tuple(items), (*errors, *errors_of(fleet)), code)


def show(
    desk: Desk, job: str, checkpoint: str | None, hosts: Iterable[str] | None = None
) -> tuple[dict[str, Any], list[HostVerdict]]:
    """Return {"info", "manifest"}, and what `hosts` (all by default) say of restoring it.

    Without `checkpoint` it is about the newest durable one.

    Raises:
        UsageError: the store does not hold it. RefusedError: it holds no durable one.
    """
    fleet = locate(desk)
    store = find_store(desk, fleet, job)
    chosen = checkpoint or _newest(job, store)
    answer: dict[str, Any] = desk.pool.session(seeing_host(desk, store)).call(
        "store.show", store=store.path, job=job, checkpoint=chosen
    )
    names = list(fleet.hosts if hosts is None else hosts)
    asked = FleetView({name: fleet.hosts[name] for name in names})
    return answer, host_verdicts(desk, asked, store, Wanted(job, chosen))


def verify(desk: Desk, job: str, checkpoint: str | None) -> Verified:
    """Check signature and hashes of `checkpoint`, by default the newest durable one.

    Raises:
        RefusedError: there is no durable checkpoint.
    """
    store, host = _store_of(desk, job)
    chosen = checkpoint or _newest(job, store)
    answer = desk.pool.session(host).stream(
        "store.verify",
        lambda event: None,
        timeout=_VERIFY_SECONDS,
        store=store.path,
        job=job,
        checkpoint=chosen,
        allowed_signers=allowed_signers(desk.folder),
    )
    return Verified(job, chosen, host.name, tuple(Finding.from_dict(item) for item in answer))


def remove(desk: Desk, job: str, checkpoint: str) -> None:
    """Remove one checkpoint from its store.

    Raises:
        RefusedError: it is the job's last durable one.
    """
    store, host = _store_of(desk, job)
    if is_last_durable(store.checkpoints, checkpoint):
        raise RefusedError(
            f"{checkpoint} is the last durable checkpoint of {job}",
            f"take another one first: gpuguard checkpoint {job}",
        )
    desk.pool.session(host).call(
        "store.remove", timeout=600.0, store=store.path, job=job, checkpoint=checkpoint
    )


def _newest(job: str, store: StoreView) -> str:
    newest = newest_durable(store.checkpoints, None)
    if newest is None:
        raise RefusedError(
            f"{job}: {store.path} holds no durable checkpoint of it", f"gpuguard checkpoint {job}"
        )
    return newest.checkpoint


def _store_of(desk: Desk, job: str) -> tuple[StoreView, Host]:
    store = find_store(desk, locate(desk), job)
    return store, seeing_host(desk, store)


def _paths(desk: Desk, fleet: FleetView) -> Iterable[str]:
    known = [spec.path for spec in desk.inventory.stores.values()]
    used = [job.policy.store for view in fleet.hosts.values() for job in view.jobs]
    return dict.fromkeys([*known, *(path for path in used if path)])


def _list(desk: Desk, fleet: FleetView, path: str, job: str | None) -> list[dict[str, Any]]:
    """Read the store through the first host that can; raise the last reason if none can."""
    last: GpuguardError = RefusedError(f"{path}: no host answers", "gpuguard doctor")
    params = {"store": path, **({"job": job} if job else {})}
    for view in fleet.hosts.values():
        if not view.reachable:
            continue
        try:
            return _read(desk.session(view.name), params)
        except GpuguardError as error:
            last = error
    raise last


def _read(session: Session, params: dict[str, Any]) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = session.call("store.list", **params)
    return answer
