"""Look at a job's folder in its store, through the hosts that reach it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gpuguard.checkpoint.ordering import newest_first
from gpuguard.model.errors import GpuguardError, RefusedError, UnreachableError
from gpuguard.model.inventory import Host
from gpuguard.model.manifests import CheckpointInfo, Manifest
from gpuguard.planning.views import EpochHolder, FleetView, StoreView
from gpuguard.remote.session import Session
from gpuguard.running.desk import Desk


@dataclass(frozen=True)
class _Look:
    """What one host sees of a job in a store."""

    checkpoints: tuple[CheckpointInfo, ...]
    holder: EpochHolder | None


def store_paths(desk: Desk, fleet: FleetView, job: str) -> list[str]:
    """Return the stores that may hold `job`, the likeliest first."""
    paths = [place.job.policy.store for place in fleet.places(job)]
    entry = desk.inventory.jobs.get(job)
    policy = desk.inventory.policy(entry.policy if entry else "default")
    if policy.store is not None:
        paths.append(desk.inventory.store(policy.store).path)
    paths += [spec.path for spec in desk.inventory.stores.values()]
    return list(dict.fromkeys(path for path in paths if path))


def find_store(desk: Desk, fleet: FleetView, job: str) -> StoreView:
    """Return the view of the first store that knows `job`, or of the likeliest one.

    Raises:
        UnreachableError: no host answers at all.
        RefusedError: no store is known, or no host that answers reaches one.
    """
    if fleet.hosts and len(fleet.unreachable()) == len(fleet.hosts):
        reasons = "; ".join(f"{view.name}: {view.problem}" for view in fleet.unreachable())
        raise UnreachableError(f"{job}: no host answers ({reasons})", "gpuguard doctor")
    views = [view_store(desk, fleet, job, path) for path in store_paths(desk, fleet, job)]
    if not views:
        raise RefusedError(
            f"{job}: the inventory names no store, so there is no durable checkpoint",
            "name one under `stores` and in the policy",
        )
    chosen = next((view for view in views if view.checkpoints or view.holder), views[0])
    seeing_host(desk, chosen)
    return chosen


def view_store(desk: Desk, fleet: FleetView, job: str, path: str) -> StoreView:
    """Ask every host that answers what it sees of `job` in the store at `path`."""
    hosts = [desk.inventory.host(view.name) for view in fleet.hosts.values() if view.reachable]
    outcomes = desk.pool.map(hosts, lambda host, session: _look(session, path, job))
    looks = {name: outcome.get() for name, outcome in outcomes.items() if outcome.ok}
    problems = {
        name: outcome.error.message.removeprefix(f"{name}: ")
        for name, outcome in outcomes.items()
        if outcome.error
    }
    best = max(looks.values(), key=_weight, default=_Look((), None))
    sees = {name: _weight(look) == _weight(best) for name, look in looks.items()}
    return StoreView(path, best.checkpoints, best.holder, sees=sees, problems=problems)


def with_manifest(desk: Desk, view: StoreView, job: str, checkpoint: str) -> StoreView:
    """Return `view` with the manifest of `checkpoint`, read by a host that sees it.

    Raises:
        GpuguardError: no host could read it; the last reason is given.
    """
    last: GpuguardError | None = None
    for name in _seeing(view):
        try:
            answer = desk.session(name).call(
                "store.show", store=view.path, job=job, checkpoint=checkpoint
            )
            return replace(view, manifest=Manifest.from_dict(answer["manifest"] or {}))
        except GpuguardError as error:
            last = error
        except (ValueError, KeyError, TypeError) as error:
            last = GpuguardError(f"{name}: the manifest of {checkpoint} is unreadable: {error}")
    raise last or GpuguardError(f"{job}: no host that answers sees checkpoint {checkpoint}")


def seeing_host(desk: Desk, view: StoreView) -> Host:
    """Return a host that sees the store; raise RefusedError if none does."""
    names = list(_seeing(view))
    if not names:
        reasons = "; ".join(f"{name}: {text}" for name, text in view.problems.items())
        raise RefusedError(
            f"no host that answers reaches the store {view.path} ({reasons or 'none answers'})",
            "gpuguard doctor",
        )
    return desk.inventory.host(names[0])


def _seeing(view: StoreView) -> Iterable[str]:
    return (name for name, sees in view.sees.items() if sees)


def _look(session: Session, path: str, job: str) -> _Look:
    listed: list[dict[str, Any]] = session.call("store.list", store=path, job=job)
    record = session.call("store.epoch", store=path, job=job)
    infos = newest_first(CheckpointInfo.from_dict(item) for item in listed)
    return _Look(tuple(infos), EpochHolder.from_dict(record) if record else None)


def _weight(look: _Look) -> tuple[int, int, int]:
    """Return what makes one look newer than another: highest epoch, then newest checkpoint."""
    newest = max(((info.epoch, info.sequence) for info in look.checkpoints), default=(0, 0))
    return (look.holder.epoch if look.holder else 0, *newest)
