"""Decide whether the old copy of a job is known to be gone. Unreachable is not dead."""

from dataclasses import dataclass

from gpuguard.model.codec import Record
from gpuguard.model.plans import Finding
from gpuguard.planning.findings import refuse, warn
from gpuguard.planning.placing import held_text
from gpuguard.planning.requests import RestoreRequest
from gpuguard.planning.views import (
    GONE,
    EpochHolder,
    FleetView,
    HostView,
    LeaseSight,
    Placed,
    StoreView,
)

GONE_SEEN = "gone"  # the old host answered and says so
REBOOTED = "boot-id"  # the old host was booted since the job was last seen on it
ASSUMED = "assume-dead"  # a person typed the host's name
HANDOVER = "handover"  # a move: the source ends its copy before the target goes on
UNDONE = "undone"  # the old host claimed the job and wrote down that its copy never ran
SCHEDULER = "scheduler"  # the scheduler says that nothing of the job can run there
POWER = "power"  # the configured power command says off
LEASE = "lease"  # the job's lease stood still for its whole term: it has ended itself


@dataclass(frozen=True)
class Proof(Record):
    """Why no other copy can go on; travels to the node that restores."""

    kind: str
    host: str
    text: str
    at: str  # UTC, ISO 8601


@dataclass(frozen=True)
class Fence:
    """The proof, or the finding that there is none; `power_off`: once the host is switched off."""

    proof: Proof | None
    findings: tuple[Finding, ...] = ()
    power_off: str | None = None


def fence(
    request: RestoreRequest, holder: EpochHolder, fleet: FleetView, store: StoreView, at: str
) -> Fence:
    """Judge whether the host that holds the job is known not to run it any more, at time `at`."""
    live = [place for place in fleet.places(request.job) if place.live]
    if live:
        return Fence(None, (_alive(request.job, live[0]),))
    view = fleet.hosts.get(holder.host)
    proof = _seen(request.job, holder, view, store.lease, at)
    if proof is not None:
        return Fence(proof)
    if request.assume_dead == holder.host:
        return _assumed(request.job, holder, at)
    if request.power_off and view is not None and not view.reachable:
        return _to_switch_off(request.job, view, at)
    return Fence(None, (_no_proof(request, holder, view, store.lease),))


def handover(source: str, at: str) -> Proof:
    """Return the proof of a move: the source has to give the job away before the target goes on."""
    return Proof(HANDOVER, source, f"{source} gives the job away before this copy goes on", at)


def powered_off(host: str, at: str) -> Proof:
    """Return the proof that a host without power gives."""
    return Proof(POWER, host, f"the power command says that {host} is off", at)


def lapsed(lease: LeaseSight | None, holder: EpochHolder) -> bool:
    """Tell whether the job's own lease of this epoch stood still for its whole term."""
    ours = lease is not None and (lease.epoch, lease.host) == (holder.epoch, holder.host)
    return ours and lease is not None and not lease.moved and lease.watched >= lease.seconds


def _seen(
    job: str, holder: EpochHolder, view: HostView | None, lease: LeaseSight | None, at: str
) -> Proof | None:
    host = holder.host
    if holder.void:
        return Proof(UNDONE, host, f"{host} took its claim back: its copy never ran", at)
    if view is not None and view.reachable:
        return _seen_gone(job, holder, view, at)
    if view is not None and view.scheduler:
        return Proof(SCHEDULER, host, view.scheduler, at)
    if view is not None and view.power is not None and view.power.state == "off":
        return powered_off(host, at)
    if lease is not None and lapsed(lease, holder):
        text = f"its lease of {lease.seconds:g} s was not renewed: the job has ended itself"
        return Proof(LEASE, host, text, at)
    return None


def _seen_gone(job: str, holder: EpochHolder, view: HostView, at: str) -> Proof | None:
    record = view.job(job)
    # A record of an earlier epoch says nothing of the copy that holds the job.
    if record is None or record.epoch < holder.epoch:
        return None
    if view.facts is not None and record.boot_id != view.facts.boot_id:
        return Proof(
            REBOOTED,
            view.name,
            f"{view.name} was booted since {job} ran there: its boot id changed",
            at,
        )
    if record.state in GONE:
        return Proof(GONE_SEEN, view.name, f"{view.name} says: {record.state.value}", at)
    return None


def _assumed(job: str, holder: EpochHolder, at: str) -> Fence:
    host = holder.host
    warning = warn("assumed-dead", host, f"only your word says that {job} no longer runs there")
    text = f"the operator says that {host} is dead"
    return Fence(Proof(ASSUMED, host, text, at), (warning,))


def _to_switch_off(job: str, view: HostView, at: str) -> Fence:
    host = view.name
    if view.power is None or not view.power.can_switch:
        text = f"{host} cannot be switched off: the inventory names no `power:` command for it"
        remedy = f"add power: {{status: […], off: […]}}, or: gpuguard restore {job} --assume-dead"
        return Fence(None, (refuse("no-power-command", host, text, f"{remedy} {host}"),))
    warning = warn("power-off", host, "it is switched off first: all else that runs there dies too")
    text = f"{host} is switched off before anything is restored"
    return Fence(Proof(POWER, host, text, at), (warning,), power_off=host)


def _alive(job: str, place: Placed) -> Finding:
    if place.job.held_by:
        return refuse("job-busy", job, held_text(place), f"gpuguard jobs show {job}")
    return refuse(
        "still-alive",
        job,
        f"it is {place.job.state.value} on {place.host}; a second copy would be made",
        f"gpuguard migrate {job}, or end it first: gpuguard jobs stop {job}",
    )


def _no_proof(
    request: RestoreRequest, holder: EpochHolder, view: HostView | None, lease: LeaseSight | None
) -> Finding:
    job, host = request.job, holder.host
    text = f"no proof that the copy on {host} (epoch {holder.epoch}) is gone: {host} "
    text += "; ".join([_what_is_known(view), *_beyond(view, lease, holder)])
    if request.assume_dead:
        text += f"; --assume-dead {request.assume_dead} names another host"
    ways = [f"gpuguard restore {job} --assume-dead {host}"]
    if view is not None and not view.reachable and view.power and view.power.can_switch:
        ways.append(f"gpuguard restore {job} --power-off")
    remedy = f"make sure that {host} is off or that nothing of {job} runs there, then: "
    return refuse("no-proof", job, text, remedy + ", or: ".join(ways))


def _what_is_known(view: HostView | None) -> str:
    if view is None:
        return "is not in the inventory"
    if not view.reachable:
        return f"does not answer ({view.problem}), and unreachable is not dead"
    return "answers, but has no record of it"


def _beyond(view: HostView | None, lease: LeaseSight | None, holder: EpochHolder) -> list[str]:
    """Return what power command and lease say, when they prove nothing."""
    said = []
    power = view.power if view is not None else None
    if power is not None and power.state == "on":
        said.append("its power is on")
    elif power is not None and power.problem:
        said.append(f"its power is not known: {power.problem}")
    if lease is not None and (lease.epoch, lease.host) == (holder.epoch, holder.host):
        moved = f"the job renews its lease ({lease.seconds:g} s): it lives"
        left = f"its lease of {lease.seconds:g} s was watched for {lease.watched:.0f} s only"
        said.append(moved if lease.moved else left)
    return said
