"""Gather what may prove that the silent holder of a job does not run it any more."""

from dataclasses import replace
from typing import Any

from gpuguard.model.errors import GpuguardError
from gpuguard.planning.fencing import Proof, fence, powered_off
from gpuguard.planning.requests import RestoreRequest
from gpuguard.planning.views import EpochHolder, FleetView, HostView, LeaseSight, StoreView
from gpuguard.running.desk import Desk, Progress
from gpuguard.running.power import look_at_power, power_state, switch_off
from gpuguard.running.stores import seeing_host
from gpuguard.state.clock import stamp
from gpuguard.state.operations import OperationLog

_POLL_SECONDS = 0.5


def gather_proofs(
    desk: Desk,
    request: RestoreRequest,
    holder: EpochHolder,
    fleet: FleetView,
    store: StoreView,
    wait: bool,
) -> tuple[FleetView, StoreView]:
    """Return both views with what scheduler, power command and lease say of a silent holder.

    Only asked while nothing else proves it. With `wait` a lease is watched for its whole term.
    """
    if not _open(desk, request, holder, fleet, store):
        return fleet, store
    fleet = _with_outside_word(desk, request.job, holder, fleet)
    if not _open(desk, request, holder, fleet, store) or holder.host not in desk.inventory.hosts:
        return fleet, store
    return fleet, replace(store, lease=_watch(desk, request.job, holder, store, wait))


def make_sure_off(desk: Desk, log: OperationLog, host: str) -> Proof:
    """Switch `host` off if it is on, and return the proof.

    Raises:
        GpuguardError: it could not be switched off, or does not say that it is.
    """
    found = desk.inventory.host(host)
    if power_state(found) != "off":
        _tell(desk, log, host, "asked", "switch it off")
        switch_off(found, desk.clock)
    _tell(desk, log, host, "done", "it is off")
    return powered_off(host, stamp(desk.clock.now()))


def _open(
    desk: Desk, request: RestoreRequest, holder: EpochHolder, fleet: FleetView, store: StoreView
) -> bool:
    """Tell whether the holder is silent and nothing proves the end of its copy yet."""
    view = fleet.hosts.get(holder.host)
    if view is None or view.reachable:
        return False
    fenced = fence(replace(request, power_off=False), holder, fleet, store, "")
    return any(finding.code == "no-proof" for finding in fenced.findings)


def _with_outside_word(desk: Desk, job: str, holder: EpochHolder, fleet: FleetView) -> FleetView:
    view = fleet.hosts[holder.host]
    asked = replace(
        view,
        power=look_at_power(desk.inventory.host(view.name)),
        scheduler=_scheduler_word(desk, job, view),
    )
    return FleetView({**fleet.hosts, view.name: asked})


def _scheduler_word(desk: Desk, job: str, view: HostView) -> str | None:
    try:
        return desk.scheduler.gone(view.name, job)
    except GpuguardError as error:
        desk.on_progress(Progress(view.name, "fence", "note", error.message, job))
        return None


def _watch(
    desk: Desk, job: str, holder: EpochHolder, store: StoreView, wait: bool
) -> LeaseSight | None:
    """Watch the lease's counter on our own clock until it moves or its whole term has passed."""
    first = _read(desk, job, store)
    if first is None:
        return None
    sight = LeaseSight(int(first["epoch"]), str(first["host"]), float(first["seconds"]))
    if not wait or (sight.epoch, sight.host) != (holder.epoch, holder.host):
        return sight
    text = f"watches the lease of {job} for {sight.seconds:g} s"
    desk.on_progress(Progress(holder.host, "fence", "note", text, job))
    began = desk.clock.monotonic()
    while True:
        desk.clock.sleep(_POLL_SECONDS)
        now = _read(desk, job, store)
        # Measured before the answer came, never after: the time watched is not overstated.
        if now != first:
            return replace(sight, watched=desk.clock.monotonic() - began, moved=True)
        passed = desk.clock.monotonic() - began
        if passed > sight.seconds + _POLL_SECONDS:
            return replace(sight, watched=passed)


def _read(desk: Desk, job: str, store: StoreView) -> dict[str, Any] | None:
    session = desk.pool.session(seeing_host(desk, store))
    answer: dict[str, Any] | None = session.call("store.lease", store=store.path, job=job)
    return answer


def _tell(desk: Desk, log: OperationLog, host: str, state: str, text: str) -> None:
    from gpuguard.model.operations import OperationStep

    log.step(OperationStep(seq=0, at="", host=host, step="power-off", state=state, text=text))
    desk.on_progress(Progress(host, "power-off", state, text))
