"""What a number or a line means, in an operator's words."""

import re
from collections.abc import Mapping
from typing import Any, Optional

from gpuguard.health.catalog import (
    action_meaning,
    near_codes,
    sxid_row,
    table,
    xid_row,
)
from gpuguard.health.events import Event, Incident
from gpuguard.health.findings import Finding, judge
from gpuguard.health.remedies import remedy_of
from gpuguard.model.errors import UsageError

_NUMBER = re.compile(r"(s?xid)?[\s:#]*(\d{1,6})", re.IGNORECASE)
_SWITCH_NUMBERS = 10000  # switches count from here
_REACH = {
    "application": "the program that was hit; other programs on the GPU go on",
    "gpu": "everything on this GPU",
    "node": "the whole host may have to go",
    "informational": "nothing is hit by it",
}
_JOB = {
    "application": "the job that was hit has lost its work since its last checkpoint; others go on",
    "gpu": "every job on this GPU must be taken as lost, or as lost soon",
    "node": "the jobs on this GPU are lost; the host's other jobs go on until it is rebooted",
    "informational": "none is hit by this line itself",
}
_SAVE = {
    "yes": "yes: nothing was lost, there is no hurry",
    "other_programs": "of other programs on the GPU, yes; the one that was hit is dead",
    "try_with_deadline": "perhaps: try with a deadline, and be ready to go back to the last one",
    "no": "no: the GPU does not answer; only the last good checkpoint helps",
    "unknown": "not known",
}


def explain_codes(text: str, driver: Optional[str] = None) -> list[dict[str, Any]]:
    """Return what each number in `text` means under `driver`.

    Raises:
        UsageError: `text` holds no number, or one that no catalog has.
    """
    found = [(match[1] or "", int(match[2])) for match in _NUMBER.finditer(text)]
    if not found:
        raise UsageError(
            f"no Xid or SXid in {text!r}",
            'give a number or a line: gpuguard xid 79, or xid "NVRM: …"',
        )
    return [_explain(kind.lower(), code, driver) for kind, code in found]


def explain_line(text: str, driver: Optional[str] = None) -> list[dict[str, Any]]:
    """Return what the fault lines in `text` say, and what follows from them together.

    Raises:
        UsageError: there is no fault line in it.
    """
    # A number alone must be answered at once, without what reads whole logs.
    from gpuguard.health.report import read

    report = read([text.encode("utf-8", "replace")], driver)
    if not report.events:
        raise UsageError(
            "this is no Xid or SXid line as the driver writes it",
            'such a line holds "NVRM: Xid (PCI:…): N" or "nvidia-nvswitchN: SXid (PCI:…): N"',
        )
    return [_explain_event(event, report.incidents, driver) for event in report.events]


def _explain(kind: str, code: int, driver: Optional[str]) -> dict[str, Any]:
    switch = kind == "sxid" or (not kind and code >= _SWITCH_NUMBERS)
    row = sxid_row(code, driver) if switch else xid_row(code, driver)
    name = "SXid" if switch else "Xid"
    if row is None:
        near = ", ".join(map(str, near_codes(code)))
        raise UsageError(
            f"{name} {code} is in no catalog{f' for driver {driver}' if driver else ''}: "
            "what it means is not known, and it is no reason to reset anything by itself",
            f"known numbers near it: {near}; keep the whole log line for the vendor",
        )
    event = Event(line=0, kind=name.lower(), pci="", code=code, text="")
    finding = judge(event, driver)
    return {
        **_meaning(name, code, row, switch),
        **_consequence(finding),
        "driver": driver,
        "workflow": _workflow(row),
        "disagreements": list(row.get("disagreements", ())),
        "other_branches": list(row.get("branch_meanings", ())),
        "sources": _sources(row, switch),
    }


def _meaning(name: str, code: int, row: Mapping[str, Any], switch: bool) -> dict[str, Any]:
    return {
        "kind": "sxid" if switch else "xid",
        "code": code,
        "title": f"{name} {code}: {row.get('short') or row['meaning']}",
        "name": row["name"],
        "meaning": row["meaning"],
        "causes": list(row.get("causes", ())),
        "where": row.get("generations_note") or row.get("family"),
        "based_on": row["action_basis"],
    }


def _consequence(found: "Finding | Incident") -> dict[str, Any]:
    remedy = remedy_of(found.action)
    return {
        "scope": found.scope,
        "reach": _REACH[found.scope],
        "severity": found.severity,
        "job": _JOB[found.scope],
        "live_checkpoint": found.live_checkpoint,
        "save": _SAVE[found.live_checkpoint],
        "action": found.action,
        "do": action_meaning(found.action),
        "remedy": remedy.action.value,
        "person": remedy.person,
        "why": found.why,
        "investigate": found.investigate,
        "look": action_meaning(found.investigate) if found.investigate else None,
        "followup": found.followup,
        "later": action_meaning(found.followup) if found.followup else None,
    }


def _workflow(row: Mapping[str, Any]) -> list[str]:
    """Return the rules that look at more than the number, as sentences."""
    flows = table("xid")["head"]["workflows"]
    names = [str(row["action"]), str(row.get("investigate"))]
    if row["code"] in flows["gsp_timeouts"]["codes"] and "short" in row:
        names.append("gsp_timeouts")
    rules = [rule for name in dict.fromkeys(names) for rule in flows.get(name, {}).get("rules", ())]
    return [f"{rule['when']}: {rule['then'].replace('_', ' ')}" for rule in rules]


def _sources(row: Mapping[str, Any], switch: bool) -> dict[str, str]:
    texts = table("sxid" if switch else "xid")["head"]["sources"]
    return {name: str(texts[name]) for name in row["sources"]}


def _explain_event(
    event: Event, incidents: list[Incident], driver: Optional[str]
) -> dict[str, Any]:
    mine = [one for one in incidents if one.pci == event.pci]
    switch = event.kind == "sxid"
    row = sxid_row(event.code, driver, event.text) if switch else xid_row(event.code, driver)
    name = "SXid" if switch else "Xid"
    unknown: dict[str, Any] = {
        **{"kind": event.kind, "code": event.code, "name": None, "causes": [], "where": None},
        **{"title": f"{name} {event.code}: not known", "meaning": "not known", "based_on": None},
    }
    return {
        **(_meaning(name, event.code, row, switch) if row else unknown),
        **_consequence(mine[0] if mine else judge(event, driver)),
        "driver": driver,
        "trusted": event.trusted,
        "event": event.to_dict(),
        "workflow": _workflow(row) if row else [],
        "disagreements": list(row.get("disagreements", ())) if row else [],
        "other_branches": list(row.get("branch_meanings", ())) if row else [],
        "sources": _sources(row, switch) if row else {},
    }
