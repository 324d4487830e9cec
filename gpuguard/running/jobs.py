"""Start jobs, take over running ones, and act on the one host a job is on."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpuguard.checkpoint.naming import is_job_name
from gpuguard.model.errors import GpuguardError, RefusedError, UnreachableError, UsageError
from gpuguard.model.inventory import Host
from gpuguard.model.jobs import Job, JobSpec
from gpuguard.model.plans import Plan
from gpuguard.planning.findings import refusal
from gpuguard.planning.placing import running_place
from gpuguard.planning.views import FleetView, Placed
from gpuguard.remote.session import Session
from gpuguard.running.desk import Desk, Progress
from gpuguard.running.locating import locate
from gpuguard.running.policies import job_policy

_START_SECONDS = 60.0


@dataclass(frozen=True)
class Launch:
    """A job to start; what is None is taken from the inventory's entry or a default."""

    name: str
    host: str | None = None
    command: tuple[str, ...] = ()
    policy: str | None = None
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    user: str | None = None
    pid: int | None = None  # adopt this process in place of starting one


def launch(desk: Desk, wish: Launch) -> tuple[str, Job]:
    """Start or adopt a job and return its host and record.

    Raises:
        UsageError: the name is none, or neither the line nor the inventory says host or command.
        RefusedError: a job of this name is in the fleet or in the store already.
    """
    host = desk.inventory.host(_host_of(desk, wish))
    spec = _spec(desk, wish, host)
    policy = job_policy(desk.inventory, spec.policy_name, host)
    _refuse_taken(locate(desk), spec.name)
    session = desk.session(host.name)
    if policy.store:
        _refuse_kept(desk, session, policy.store, host.name, spec.name)
    else:
        text = f"no store: nothing can be saved; {desk.inventory.store_remedy(spec.policy_name)}"
        desk.on_progress(Progress(host.name, "store", "warning", text, spec.name))
    params: dict[str, Any] = {"spec": spec.to_dict(), "policy": policy.to_dict()}
    if wish.pid is not None:
        answer = session.call("jobs.adopt", timeout=_START_SECONDS, pid=wish.pid, **params)
    else:
        # The uid is fresh with every wish, so it also tells the same request asked twice.
        answer = session.call("jobs.run", timeout=_START_SECONDS, request_id=spec.uid, **params)
    return host.name, Job.from_dict(answer)


def find(desk: Desk, name: str, host: str | None = None) -> Placed:
    """Return the host and record of a job; on `host` alone if it is named.

    Raises:
        UsageError: no host knows the job. UnreachableError: a host that may know it is silent.
        RefusedError: two hosts report a live copy.
    """
    return place_of(name, locate(desk, [host] if host else None, facts=False))


def place_of(name: str, fleet: FleetView) -> Placed:
    """Return where the job is by what the hosts of `fleet` said; raise what `find` raises."""
    places = fleet.places(name)
    if len([place for place in places if place.live]) > 1:
        raise _refusal(name, fleet)
    if places:
        return places[0]
    silent = fleet.unreachable()
    if silent:
        reasons = "; ".join(f"{view.name}: {view.problem}" for view in silent)
        raise UnreachableError(
            f"{name}: no host that answers knows it, and some are silent ({reasons})",
            f"gpuguard restore {name}, if its host is dead",
        )
    raise _refusal(name, fleet)


def stop(desk: Desk, name: str, host: str | None, grace: float | None) -> Placed:
    """End the job with TERM, then KILL after `grace` seconds (the policy's by default)."""
    place = find(desk, name, host)
    seconds = place.job.policy.stop_grace if grace is None else grace
    answer = desk.session(place.host).call(
        "jobs.stop", timeout=seconds + 30.0, name=name, grace=seconds
    )
    return Placed(place.host, Job.from_dict(answer))


def forget(desk: Desk, name: str, host: str | None, force: bool) -> str:
    """Drop the record of an ended job and return its host; checkpoints stay."""
    place = find(desk, name, host)
    desk.session(place.host).call("jobs.forget", name=name, force=force)
    return place.host


def logs(
    desk: Desk, place: Placed, lines: int, follow: bool, on_text: Callable[[str], None]
) -> None:
    """Hand the end of the job's log to `on_text`, and with `follow` what is added to it."""
    desk.session(place.host).stream(
        "jobs.logs",
        lambda event: on_text(str(event.get("text", ""))),
        name=place.job.spec.name,
        lines=lines,
        follow=follow,
    )


def _host_of(desk: Desk, wish: Launch) -> str:
    entry = desk.inventory.jobs.get(wish.name)
    host = wish.host or (entry.host if entry else None)
    if host is None:
        raise UsageError(f"{wish.name}: no host is named", "add --host HOST")
    return host


def _spec(desk: Desk, wish: Launch, host: Host) -> JobSpec:
    if not is_job_name(wish.name):
        raise UsageError(
            f"{wish.name!r} is no name of a job",
            "use letters, digits, dots, dashes and underscores, 64 at most",
        )
    entry = desk.inventory.jobs.get(wish.name)
    command = wish.command or (entry.command if entry else ())
    if not command and wish.pid is None:
        raise UsageError(
            f"{wish.name}: no command is given",
            f"gpuguard jobs run {wish.name} --host {host.name} -- COMMAND",
        )
    return JobSpec(
        name=wish.name,
        uid=secrets.token_hex(8),
        command=tuple(command),
        cwd=wish.cwd or (entry.cwd if entry else "/"),
        env={**(entry.env if entry else {}), **wish.env},
        user=wish.user or (entry.user if entry else None),
        policy_name=wish.policy or (entry.policy if entry else host.policy),
    )


def _refuse_taken(fleet: FleetView, name: str) -> None:
    for place in fleet.places(name):
        if place.live:
            raise RefusedError(
                f"{place.host}: a job {name} is {place.job.state.value} there",
                f"choose another name, or: gpuguard jobs stop {name}",
            )


def _refuse_kept(desk: Desk, session: Session, store: str, host: str, name: str) -> None:
    """Refuse a name whose checkpoints of an earlier job lie in the store; its uid is another."""
    try:
        kept = session.call("store.list", store=store, job=name)
        held = session.call("store.epoch", store=store, job=name)
    except GpuguardError as error:
        # The job may run without its store; only its checkpoints have to wait for it.
        text = error.message.removeprefix(f"{host}: ")
        desk.on_progress(Progress(host, "store", "warning", text, name))
        return
    if kept or held:
        raise RefusedError(
            f"{host}: the store {store} keeps {len(kept)} checkpoints of an earlier job {name}",
            f"choose another name, bring that job back (gpuguard restore {name}), or move"
            f" {store}/{name} away",
        )


def _refusal(name: str, fleet: FleetView) -> GpuguardError:
    _, findings = running_place(name, fleet)
    return refusal(Plan("", "find", (name,), (), tuple(findings)))
