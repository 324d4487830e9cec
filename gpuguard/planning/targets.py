"""Choose the host that takes a job over: every rule for every host, with the reasons."""

from dataclasses import dataclass

from gpuguard.checkpoint.compatibility import FROM_AFAR, judge
from gpuguard.checkpoint.host_seen import HostSeen
from gpuguard.checkpoint.preflight_codes import rule_of
from gpuguard.model.plans import Finding, Level
from gpuguard.planning.cordons import cordon_problems, cordon_remedy
from gpuguard.planning.findings import inform, refuse
from gpuguard.planning.views import FleetView, HostFacts, HostView, StoreView

_GIB = 1 << 30


@dataclass(frozen=True)
class Choice:
    """The chosen host, or None, and what was found on the way."""

    host: str | None
    findings: tuple[Finding, ...] = ()


def choose_target(job: str, wish: str | None, fleet: FleetView, store: StoreView) -> Choice:
    """Return `wish` if it is fit, or else the fit host with most free memory.

    Hosts that are about equal are taken in the inventory's order: the same choice every time.
    """
    if wish is not None:
        view = fleet.hosts.get(wish)
        problems = _problems(job, view, store) if view else ["it is not in the inventory"]
        remedy = cordon_remedy(view) or _remedy(wish)
        reasons = tuple(refuse("target-unfit", wish, text, remedy) for text in problems)
        return Choice(None if reasons else wish, reasons)
    judged = {name: _problems(job, view, store) for name, view in fleet.hosts.items()}
    fit = [name for name, problems in judged.items() if not problems]
    notes = tuple(
        inform("host-unfit", name, "; ".join(problems))
        for name, problems in judged.items()
        if problems
    )
    if not fit:
        return Choice(None, (_nowhere(job, judged), *notes))
    chosen, reason = _roomiest(fit, fleet)
    return Choice(chosen, (inform("target-chosen", chosen, f"chosen: {reason}"), *notes))


def _roomiest(fit: list[str], fleet: FleetView) -> tuple[str, str]:
    """Return the host to take and why; what differs by less than a margin counts as equal."""
    free = {name: _free(fleet.hosts[name]) for name in fit}
    most = max(free.values())
    equal = [name for name in fit if free[name] > most - max(_GIB, most // 20)]
    if len(fit) == 1:
        return fit[0], "the only host that fits"
    if len(equal) == 1:
        return equal[0], f"{len(fit)} hosts fit, it has most free memory"
    count = f"{len(fit)} hosts fit, {len(equal)} of them have about the most free memory"
    return equal[0], f"{count}, and it is the first of these in the inventory"


def _problems(job: str, view: HostView, store: StoreView) -> list[str]:
    """Return why this host cannot take the job, one sentence each."""
    if not view.reachable or view.facts is None:
        return [f"it does not answer: {view.problem}", *cordon_problems(view)]
    problems = cordon_problems(view)
    known = view.job(job)
    if known is not None and known.state.value in ("running", "stopped", "unknown"):
        problems.append(f"a job {job} is {known.state.value} there")
    if not store.sees.get(view.name, False):
        reason = store.problems.get(view.name, f"{store.path} shows nothing of {job}")
        problems.append(f"it does not reach the store: {reason}")
    return [*problems, *_verdict(view, store)]


def _verdict(view: HostView, store: StoreView) -> list[str]:
    """Return what the host itself found, or what can be told from afar if it was not asked."""
    found = store.verdicts.get(view.name)
    if found is None and store.manifest is not None and view.facts is not None:
        found = tuple(judge(store.manifest, _seen(view.name, view.facts), FROM_AFAR))
    told = {"cordon", "copies"} | ({"store"} if not store.sees.get(view.name) else set())
    return [
        item.text
        for item in found or ()
        if item.level is Level.ERROR and rule_of(item.code) not in told
    ]


def _seen(name: str, facts: HostFacts) -> HostSeen:
    return HostSeen(
        name=name,
        arch=facts.arch,
        kernel=facts.kernel,
        criu=facts.criu,
        cpu_flags=facts.cpu_flags,
        memory_available=facts.memory_available or 0,
    )


def _free(view: HostView) -> int:
    return (view.facts.memory_available or 0) if view.facts else 0


def _remedy(host: str) -> str:
    return f"gpuguard doctor {host}, or leave --to away to let a host be chosen"


def _nowhere(job: str, judged: dict[str, list[str]]) -> Finding:
    reasons = "; ".join(f"{name}: {problems[0]}" for name, problems in judged.items())
    return refuse("no-target", job, f"no host can take it over ({reasons})", "gpuguard doctor")
