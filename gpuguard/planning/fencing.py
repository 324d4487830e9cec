"""Decide whether the old copy of a job is known to be gone. Unreachable is not dead."""

from dataclasses import dataclass

from gpuguard.model.codec import Record
from gpuguard.model.plans import Finding
from gpuguard.planning.findings import refuse, warn
from gpuguard.planning.views import GONE, EpochHolder, FleetView, HostView

GONE_SEEN = "gone"  # the old host answered and says so
REBOOTED = "boot-id"  # the old host was booted since the job was last seen on it
ASSUMED = "assume-dead"  # a person typed the host's name
HANDOVER = "handover"  # a move: the source ends its copy before the target goes on


@dataclass(frozen=True)
class Proof(Record):
    """Why no other copy can go on; travels to the node that restores."""

    kind: str
    host: str
    text: str
    at: str  # UTC, ISO 8601


@dataclass(frozen=True)
class Fence:
    """The proof, or the finding that there is none."""

    proof: Proof | None
    findings: tuple[Finding, ...] = ()


def fence(
    job: str, holder: EpochHolder, fleet: FleetView, assume_dead: str | None, at: str
) -> Fence:
    """Judge whether the host that holds `job` is known not to run it any more, at time `at`."""
    live = [place for place in fleet.places(job) if place.live]
    if live:
        return Fence(None, (_alive(job, live[0].host, live[0].job.state.value),))
    view = fleet.hosts.get(holder.host)
    proof = _seen_gone(job, view, at) if view is not None and view.reachable else None
    if proof is not None:
        return Fence(proof)
    if assume_dead == holder.host:
        text = f"the operator says that {holder.host} is dead"
        warning = warn(
            "assumed-dead", holder.host, f"only your word says that {job} no longer runs there"
        )
        return Fence(Proof(ASSUMED, holder.host, text, at), (warning,))
    return Fence(None, (_no_proof(job, holder, view, assume_dead),))


def handover(source: str, at: str) -> Proof:
    """Return the proof of a move: the source has to give the job away before the target goes on."""
    return Proof(HANDOVER, source, f"{source} gives the job away before this copy goes on", at)


def _seen_gone(job: str, view: HostView, at: str) -> Proof | None:
    record = view.job(job)
    if record is None:
        return None
    if view.facts is not None and record.boot_id != view.facts.boot_id:
        return Proof(REBOOTED, view.name, f"{view.name} was booted since the job ran there", at)
    if record.state in GONE:
        return Proof(GONE_SEEN, view.name, f"{view.name} says: {record.state.value}", at)
    return None


def _alive(job: str, host: str, state: str) -> Finding:
    return refuse(
        "still-alive",
        job,
        f"it is {state} on {host}; a second copy would be made",
        f"gpuguard migrate {job}, or end it first: gpuguard jobs stop {job}",
    )


def _no_proof(
    job: str, holder: EpochHolder, view: HostView | None, assume_dead: str | None
) -> Finding:
    host = holder.host
    if view is None:
        seen = "is not in the inventory"
    elif not view.reachable:
        seen = f"does not answer ({view.problem}), and unreachable is not dead"
    else:
        seen = "answers, but has no record of it"
    text = f"no proof that the copy on {host} (epoch {holder.epoch}) is gone: {host} {seen}"
    if assume_dead:
        text += f"; --assume-dead {assume_dead} names another host"
    remedy = (
        f"make sure that {host} is off or that nothing of {job} runs there, then: "
        f"gpuguard restore {job} --assume-dead {host}"
    )
    return refuse("no-proof", job, text, remedy)
