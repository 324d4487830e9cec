"""Find the one host a job is on, or say why that cannot be said."""

from difflib import get_close_matches

from gpuguard.model.jobs import JobState
from gpuguard.model.plans import Finding
from gpuguard.planning.findings import refuse, warn
from gpuguard.planning.views import FleetView, Placed


def running_place(job: str, fleet: FleetView) -> tuple[Placed | None, list[Finding]]:
    """Return where `job` runs, with what hinders; None if it cannot be acted on."""
    places = fleet.places(job)
    live = [place for place in places if place.live]
    if len(live) > 1:
        return None, [_two_copies(job, live)]
    if not places:
        return None, [_unknown(job, fleet)]
    place = places[0]
    if place.job.state is not JobState.RUNNING:
        return None, [_not_running(job, place, fleet)]
    return place, _notes(place)


def _two_copies(job: str, live: list[Placed]) -> Finding:
    seen = ", ".join(f"{p.host} ({p.job.state.value}, epoch {p.job.epoch})" for p in live)
    lower = min(live, key=lambda place: place.job.epoch)
    return refuse(
        "two-copies",
        job,
        f"more than one host reports a live copy: {seen}",
        f"stop the copy with the lower epoch: gpuguard jobs stop {job} --host {lower.host}",
    )


def _unknown(job: str, fleet: FleetView) -> Finding:
    silent = fleet.unreachable()
    if silent:
        names = ", ".join(view.name for view in silent)
        text = f"no host that answers knows it; {names} did not answer: {silent[0].problem}"
        remedy = f"bring {silent[0].name} back, or: gpuguard restore {job}"
        return refuse("host-unreachable", job, text, remedy)
    near = get_close_matches(job, fleet.names(), n=1)
    remedy = f"did you mean {near[0]}?" if near else "gpuguard jobs list"
    return refuse("job-unknown", job, "no host knows a job of this name", remedy)


def held_text(place: Placed) -> str:
    """Say who is at work on a job, and since when."""
    held = place.job.held_by or {}
    who = " ".join(str(held[key]) for key in ("kind", "procedure") if held.get(key))
    asked_by = f" of {held['asked_by']}" if held.get("asked_by") else ""
    return f"it is held on {place.host} by {who}{asked_by} since {held.get('since', '?')}"


def _not_running(job: str, place: Placed, fleet: FleetView) -> Finding:
    state = place.job.state
    if place.live and place.job.held_by:
        return refuse("job-busy", job, held_text(place), f"gpuguard jobs show {job}")
    silent = ", ".join(view.name for view in fleet.unreachable())
    if silent and not place.live:
        text = f"{silent} did not answer, and {place.host} says {state.value}"
        return refuse("host-unreachable", job, text, f"gpuguard restore {job}")
    detail = f": {place.job.note}" if place.job.note else ""
    text = f"it does not run: {place.host} says {state.value}{detail}"
    if place.live:
        remedy = f"a procedure may hold it, look: gpuguard jobs show {job}"
    else:
        remedy = f"gpuguard restore {job}"
    return refuse("job-not-running", job, text, remedy)


def _notes(place: Placed) -> list[Finding]:
    return [warn("job-note", place.job.spec.name, place.job.note)] if place.job.note else []
