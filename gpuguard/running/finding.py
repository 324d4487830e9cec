"""Find one job for a command that only reads, without the wait for hosts that are silent.

The copy that holds the store's highest epoch is the job, whatever a silent host would say.
"""

import queue
import threading
import time
from dataclasses import dataclass

from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import Host
from gpuguard.model.jobs import Job, JobState
from gpuguard.planning.views import EpochHolder, FleetView, HostView, Placed
from gpuguard.remote.outcome import Outcome
from gpuguard.remote.session import Session
from gpuguard.running.desk import Desk
from gpuguard.running.jobs import find, place_of
from gpuguard.running.locating import view_of

_GRACE = 1.0  # seconds that other hosts have to answer once the job is found
_EPOCH_SECONDS = 5.0

_Answer = tuple[Host, Outcome[HostView]] | BaseException | None


@dataclass(frozen=True)
class Found:
    """Where a job is, and the hosts that did not say what they know of it."""

    place: Placed
    silent: tuple[str, ...] = ()


def look_up(desk: Desk, name: str, host: str | None = None) -> Found:
    """Return where the job is; raise what `find` raises."""
    if host is not None:
        return Found(find(desk, name, host))
    fleet = _look(desk, name)
    place = place_of(name, fleet)
    return Found(place, tuple(view.name for view in fleet.unreachable()))


def _look(desk: Desk, name: str) -> FleetView:
    """Ask every host; once the job is found the others have a moment left."""
    answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
    holders: set[str] = set()
    worker = threading.Thread(
        target=_ask_all, args=(desk, name, answers, holders), name="gpuguard-find", daemon=True
    )
    worker.start()
    views: dict[str, HostView] = {}
    until: float | None = None
    while True:
        if until is None and holders & views.keys():
            until = time.monotonic() + _GRACE
        try:
            answer = answers.get(timeout=until and max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        if answer is None:
            break
        if isinstance(answer, BaseException):
            raise answer
        views[answer[0].name] = view_of(desk, *answer)
    late = {
        other: HostView(other, False, problem="it has not answered yet")
        for other in desk.inventory.hosts
    }
    return FleetView({**late, **views})


def _ask_all(
    desk: Desk, name: str, answers: "queue.SimpleQueue[_Answer]", holders: set[str]
) -> None:
    def ask(host: Host, session: Session) -> HostView:
        try:
            jobs = tuple(Job.from_dict(item) for item in session.call("jobs.list"))
        except ValueError as error:
            text = f"{host.name}: the agent's answer makes no sense: {error}"
            raise GpuguardError(text) from error
        view = HostView(host.name, True, jobs=jobs)
        if _holds(session, view, name):
            holders.add(host.name)
        return view

    try:
        hosts = list(desk.inventory.hosts.values())
        desk.pool.map(hosts, ask, lambda host, outcome: answers.put((host, outcome)))
        answers.put(None)
    except BaseException as error:  # raised again in the thread that waits
        answers.put(error)


def _holds(session: Session, view: HostView, name: str) -> bool:
    """Tell whether the store's highest epoch record is of the copy that runs on this host."""
    job = view.job(name)
    if job is None or job.state is not JobState.RUNNING or job.policy.store is None:
        return False
    try:
        told = session.call("store.epoch", timeout=_EPOCH_SECONDS, store=job.policy.store, job=name)
        top = EpochHolder.from_dict(told) if told else None
    except (GpuguardError, ValueError):
        return False  # then every host is waited for, as if there were no store
    return top is not None and (top.host, top.uid) == (view.name, job.spec.uid)
