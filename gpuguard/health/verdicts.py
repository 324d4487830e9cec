"""Say what an incident is: its cause, its reach, the smallest sufficient remedy, and why."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Optional

from gpuguard.health.catalog import action_rank
from gpuguard.health.drivers import branch
from gpuguard.health.events import Incident
from gpuguard.health.findings import (
    LOST,
    PRECURSORS,
    SEVERITIES,
    Finding,
    heavier,
    judge_code,
)
from gpuguard.health.incidents import AFTER_EFFECTS, Open
from gpuguard.health.nvlink4 import REPEATS
from gpuguard.health.remedies import NOTHING_KNOWN, recovery_word, remedy_of

_TIMEOUT = 119
_TIMEOUTS = 3  # in a row make the driver mark the GPU for a reset
_PATIENT_BRANCH = 575  # drivers from here on let the first timeouts pass
_LINK_ERROR = 74
_BUSY_LINKS = range(20000, 21000)  # what a switch prints when the far end of a link dies
_NEIGHBOUR_SECONDS = 60.0


@dataclass(frozen=True)
class Neighbours:
    """What happened on the host about the same time, on other devices."""

    lost_gpu: Optional[str] = None
    dead_gpu: Optional[str] = None  # lost, or without its system processor or memory
    fatal_switch: Optional[str] = None


def neighbours_of(incident: Open, others: Iterable[Open]) -> Neighbours:
    """Look around an incident for what may be its cause."""
    found = Neighbours()
    for other in others:
        if other is incident or other.host != incident.host or not _near(incident, other):
            continue
        if _is_lost(other):
            found = replace(found, lost_gpu=other.pci, dead_gpu=other.pci)
        elif not other.switch and set(other.codes) & {48, 95, 119, 120, 140}:
            found = replace(found, dead_gpu=found.dead_gpu or other.pci)
        elif other.switch and any(
            SEVERITIES.index(one.severity) >= 2 for one in other.findings.values()
        ):
            found = replace(found, fatal_switch=other.pci)
    return found


def conclude(incident: Open, driver: Optional[str], around: Neighbours) -> Optional[Incident]:
    """Return the incident's verdict; None where another device's incident tells it all."""
    if incident.switch and around.lost_gpu and set(incident.codes) <= set(_BUSY_LINKS):
        return None
    finding, seen = _primary(incident, driver)
    finding = _walk(finding, incident, driver, around)
    finding = _harder(finding, incident)
    finding = _recovered(finding, incident)
    finding = _stuck(finding, incident)
    return _incident(incident, finding, seen)


def _primary(incident: Open, driver: Optional[str]) -> tuple[Finding, bool]:
    findings = dict(incident.findings)
    if {94, 95} & findings.keys():
        for code in PRECURSORS:
            findings.pop(code, None)
    if incident.lost and LOST not in findings:
        return judge_code(LOST), True
    causes = [one for code, one in findings.items() if code not in AFTER_EFFECTS]
    if not causes and incident.previous is not None:
        return judge_code(incident.previous, driver), False
    if not causes:
        effects = [one for code, one in findings.items() if code != 154]
        causes = effects or list(findings.values())
        # The driver's own tidying up is never the cause of another line.
        causes = [one for one in causes if one.code != 45] or causes
    return max(causes, key=_weight), True


def _weight(finding: Finding) -> tuple[int, float]:
    rank = float(action_rank(finding.action))
    if finding.action == NOTHING_KNOWN:
        rank = 0.5  # that nobody knows a remedy is no hard remedy
    return SEVERITIES.index(finding.severity), rank


def _walk(finding: Finding, incident: Open, driver: Optional[str], around: Neighbours) -> Finding:
    """Follow the workflows that look at the neighbours of a line."""
    codes = incident.codes
    if finding.code in (48, 171, 172) and 63 in codes:
        why = "uncorrectable memory error, and its row waits to be replaced by a reset"
        return replace(finding, action="drain_and_reset", why=why)
    if finding.code == _TIMEOUT:
        return _timeouts(finding, incident, driver)
    if finding.code == _LINK_ERROR:
        return _link_error(finding, incident, around)
    if finding.code == 13 and incident.repeats:
        why = "the same place of the GPU failed again in another burst: hardware is suspected"
        return replace(finding, why=why, investigate="contact_support")
    if finding.code == 45 and (around.fatal_switch or around.dead_gpu):
        why = f"a side effect of {around.fatal_switch or around.dead_gpu}"
        return replace(finding, action="follow_primary_fault", why=why)
    return finding


def _timeouts(finding: Finding, incident: Open, driver: Optional[str]) -> Finding:
    known = branch(driver)
    few = incident.codes[_TIMEOUT] < _TIMEOUTS and not incident.undercount
    if few and known is not None and known >= _PATIENT_BRANCH:
        why = f"the first timeouts on driver {driver}: watch, the GPU may recover by itself"
        return replace(finding, action="none", severity="warning", why=why)
    return finding


def _link_error(finding: Finding, incident: Open, around: Neighbours) -> Finding:
    if any(count > REPEATS for count in incident.corrected_links.values()):
        why = "corrected errors keep coming on one link"
        return replace(finding, action="contact_support", investigate="contact_support", why=why)
    cause = around.dead_gpu or around.fatal_switch
    if cause:
        why = f"the far end of the link died first: see {cause}"
        return replace(finding, action="follow_primary_fault", why=why)
    return finding


def _harder(finding: Finding, incident: Open) -> Finding:
    """Take the hardest remedy that any line of the incident needs."""
    told = incident.findings
    skipped = set(PRECURSORS) if {94, 95} & told.keys() else set()
    followup = next((one.followup for one in told.values() if one.followup), None)
    finding = replace(finding, followup=followup)
    for code, other in told.items():
        if code in skipped or code in AFTER_EFFECTS or code == finding.code:
            continue
        if code in PRECURSORS and finding.code in PRECURSORS:
            continue
        if _rank(other.action) > _rank(finding.action):
            why = f"{finding.why}; Xid {code} needs more: {other.why}"
            finding = replace(finding, action=other.action, why=why)
    return finding


def _rank(word: str) -> int:
    return remedy_of(word).action.rank


def _recovered(finding: Finding, incident: Open) -> Finding:
    """Let the driver's recovery action outrank the number."""
    value = incident.recovery
    if value is None:
        return finding
    if value == 0:
        severity = "info" if finding.code == 154 else finding.severity
        why = "the driver took its recovery action back: the last value wins"
        return replace(finding, action="none", severity=severity, why=why, live_checkpoint="yes")
    word = recovery_word(value) or NOTHING_KNOWN
    if _is_lost(incident) and _rank(word) < _rank(finding.action):
        # The driver announces a reset of a GPU that it cannot reach any more.
        return finding
    scope, severity = _RECOVERY_WEIGHT.get(word, ("gpu", "warning"))
    why = f"the driver's recovery action ({value}) outranks the number"
    if finding.code != 154:
        why = f"{finding.why}; {why}"
    return replace(finding, action=word, why=why).at_least(scope, severity)


_RECOVERY_WEIGHT = {
    "reset_gpu": ("gpu", "error"),
    "reboot_node": ("node", "critical"),
    "recover_imex_domain": ("node", "error"),
}


def _stuck(finding: Finding, incident: Open) -> Finding:
    stuck = incident.stuck
    if stuck is None or _rank(finding.action) >= _rank("reboot_node"):
        return finding
    why = (
        f"process {stuck.fields['pid']} is stuck in the kernel and cannot be ended, "
        "so a reset would find the GPU in use"
    )
    severity = heavier(finding.severity, "error")
    return replace(finding, action="reboot_node", severity=severity, why=why, live_checkpoint="no")


def _incident(incident: Open, finding: Finding, seen: bool) -> Incident:
    lost = bool(incident.lost and LOST not in incident.codes)
    remedy = remedy_of(finding.action)
    kind = "sxid" if incident.switch else "gpu_lost" if lost else "xid"
    slices = incident.slices
    return Incident(
        pci=incident.pci,
        kind=kind,
        primary="gpu_lost" if lost else finding.code,
        scope=finding.scope,
        severity=finding.severity,
        action=finding.action,
        remedy=remedy.action.value,
        why=finding.why,
        person=remedy.person,
        host=incident.host,
        uuid=incident.uuid,
        gi=next(iter(slices)) if len(slices) == 1 else None,
        seen=seen,
        known=finding.known,
        codes=sorted(incident.codes),
        count=incident.count,
        undercount=incident.undercount,
        investigate=finding.investigate,
        followup=finding.followup,
        cleared=incident.cleared,
        guess=finding.guess,
        equivalent_xid=LOST if lost else None,
        live_checkpoint=finding.live_checkpoint,
        pids=list(incident.pids),
        names=list(incident.names),
        evidence=list(incident.evidence),
        first_line=incident.first_line,
        last_line=incident.last_line,
        first_time=incident.first_time,
        last_time=incident.last_time,
    )


def _is_lost(incident: Open) -> bool:
    return bool(incident.lost) or LOST in incident.codes


def _near(one: Open, other: Open) -> bool:
    if one.axis != other.axis or one.first_seconds is None or other.first_seconds is None:
        return True
    first = max(one.first_seconds, other.first_seconds)
    last = min(one.last_seconds or 0.0, other.last_seconds or 0.0)
    return first - last <= _NEIGHBOUR_SECONDS
