"""Choose the host that takes a job over: every rule for every host, with the reasons."""

import re
from dataclasses import dataclass

from gpuguard.model.plans import Finding
from gpuguard.planning.cordons import cordon_problems, cordon_remedy
from gpuguard.planning.findings import inform, refuse
from gpuguard.planning.views import FleetView, HostFacts, HostView, JobNeeds, StoreView

_MEMORY_SPARE = 64 * 1024 * 1024  # bytes the host keeps beyond the job's own


@dataclass(frozen=True)
class Choice:
    """The chosen host, or None, and what was found on the way."""

    host: str | None
    findings: tuple[Finding, ...] = ()


def choose_target(
    job: str, wish: str | None, fleet: FleetView, needs: JobNeeds, store: StoreView
) -> Choice:
    """Return `wish` if it is fit, or else the fit host with most free memory."""
    if wish is not None:
        view = fleet.hosts.get(wish)
        problems = _problems(job, view, needs, store) if view else ["it is not in the inventory"]
        remedy = cordon_remedy(view) or _remedy(wish)
        reasons = tuple(refuse("target-unfit", wish, text, remedy) for text in problems)
        return Choice(None if reasons else wish, reasons)
    judged = {name: _problems(job, view, needs, store) for name, view in fleet.hosts.items()}
    fit = [name for name, problems in judged.items() if not problems]
    notes = tuple(
        inform("host-unfit", name, "; ".join(problems))
        for name, problems in judged.items()
        if problems
    )
    if not fit:
        return Choice(None, (_nowhere(job, judged), *notes))
    return Choice(max(fit, key=lambda name: _free(fleet.hosts[name])), notes)


def _problems(job: str, view: HostView, needs: JobNeeds, store: StoreView) -> list[str]:
    """Return why this host cannot take the job, one sentence each."""
    if not view.reachable or view.facts is None:
        return [f"it does not answer: {view.problem}", *cordon_problems(view)]
    problems = [*cordon_problems(view), *_version_problems(view.facts, needs)]
    wanted = needs.memory + _MEMORY_SPARE
    have = view.facts.memory_available or 0
    if have < wanted:
        problems.append(f"it has {have >> 20} MiB of memory free, {wanted >> 20} MiB are needed")
    known = view.job(job)
    if known is not None and known.state.value in ("running", "stopped", "unknown"):
        problems.append(f"a job {job} is {known.state.value} there")
    if not store.sees.get(view.name, False):
        reason = store.problems.get(view.name, f"{store.path} shows nothing of {job}")
        problems.append(f"it does not reach the store: {reason}")
    return problems


def _version_problems(facts: HostFacts, needs: JobNeeds) -> list[str]:
    problems = []
    if facts.arch != needs.arch:
        problems.append(f"it is {facts.arch}, the job needs {needs.arch}")
    if facts.criu is None:
        problems.append("CRIU is not installed")
    elif needs.criu is not None and _number(facts.criu) < _number(needs.criu):
        problems.append(f"CRIU {facts.criu} is older than {needs.criu}, which made the checkpoint")
    if _number(facts.kernel)[:2] < _number(needs.kernel)[:2]:
        problems.append(f"kernel {facts.kernel} is older than {needs.kernel}")
    missing = sorted(set(needs.cpu_flags) - set(facts.cpu_flags))
    if needs.cpu_flags and missing:
        problems.append(f"its CPU lacks {', '.join(missing[:6])}")
    return problems


def _number(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, as in ``(6, 1, 0)`` for ``6.1.0-18-amd64``."""
    match = re.match(r"\d+(\.\d+)*", version.strip().lstrip("v"))
    parts = [int(part) for part in match.group().split(".")] if match else []
    return tuple([*parts, 0, 0, 0][:3])


def _free(view: HostView) -> int:
    return (view.facts.memory_available or 0) if view.facts else 0


def _remedy(host: str) -> str:
    return f"gpuguard doctor {host}, or leave --to away to let a host be chosen"


def _nowhere(job: str, judged: dict[str, list[str]]) -> Finding:
    reasons = "; ".join(f"{name}: {problems[0]}" for name, problems in judged.items())
    return refuse("no-target", job, f"no host can take it over ({reasons})", "gpuguard doctor")
