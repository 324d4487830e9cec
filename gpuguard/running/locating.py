"""Look at the fleet: who answers, what runs where. One dead host delays or hides nobody."""

from collections.abc import Callable, Iterable

from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import Host
from gpuguard.model.jobs import Job
from gpuguard.planning.views import FleetView, HostFacts, HostView
from gpuguard.remote.outcome import Outcome
from gpuguard.remote.session import Session
from gpuguard.running.cordons import book_of, sight
from gpuguard.running.desk import Desk
from gpuguard.running.enrolling import enrol

OnHost = Callable[[HostView], None]


def locate(
    desk: Desk,
    hosts: Iterable[str] | None = None,
    facts: bool = True,
    on_host: OnHost | None = None,
) -> FleetView:
    """Ask `hosts` (all by default) at once for their jobs, and with `facts` for what they are.

    A host that fails is in the view with its reason; `on_host` gets each view as it arrives.
    """
    names = list(desk.inventory.hosts) if hosts is None else list(hosts)
    wanted = [desk.inventory.host(name) for name in names]
    views: dict[str, HostView] = {}

    def arrive(host: Host, outcome: Outcome[HostView]) -> None:
        views[host.name] = view_of(desk, host, outcome)
        if on_host is not None:
            on_host(views[host.name])

    desk.pool.map(wanted, lambda host, session: _ask(desk, host, session, facts), arrive)
    return FleetView({name: views[name] for name in names})


def _ask(desk: Desk, host: Host, session: Session, facts: bool) -> HostView:
    try:
        jobs = tuple(Job.from_dict(item) for item in session.call("jobs.list"))
        said = session.call("host.info") if facts else {}
        known = HostFacts.from_dict(said) if facts else None
        cordons = sight(desk, host, session, said.get("cordons") or ()) if facts else ()
    except ValueError as error:
        raise GpuguardError(f"{host.name}: the agent's answer makes no sense: {error}") from error
    if known is None:
        return HostView(host.name, True, jobs=jobs)
    if known.signing_key:
        enrol(desk.folder, host.name, known.signing_key)
    return HostView(host.name, True, facts=known, jobs=jobs, cordons=cordons)


def view_of(desk: Desk, host: Host, outcome: Outcome[HostView]) -> HostView:
    """Return what a host answered, or the view of one that did not."""
    if outcome.error is None:
        return outcome.get()
    problem = _without_host(host.name, outcome.error.message)
    standing = book_of(desk).get(host.name).standing
    return HostView(host.name, False, problem=problem, hint=outcome.error.hint, cordons=standing)


def _without_host(name: str, message: str) -> str:
    """Return `message` without the host in front; findings and tables name it already."""
    return message.removeprefix(f"{name}: ")
