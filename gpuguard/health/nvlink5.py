"""Decode the lines of NVLink 5 (Xid 144 to 150) with the driver's own table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Optional

from gpuguard.health.catalog import action_rank, table
from gpuguard.health.drivers import branch

CODES = frozenset(range(144, 151))
_SECOND_LAYOUT = 575  # the first branch that prints it
_PROMOTED = {"v1": 1 << 10, "v2": 1 << 7}
_LINE = re.compile(
    r"(?P<unit>[A-Z][\w ]*?)\s+(?P<severity>Fatal|Nonfatal|Non-fatal)\s+(?P<cross>XC\d)\s+"
    r"(?P<injected>i\d)\s+Link\s+(?P<link>-?\d+)\s*\(\s*(?P<words>[0-9a-fA-FxX ,]*)"
)
_PACKET_LOSS = 0x4 | 0x8  # in the status of RLW_SRC_TRACK


@dataclass(frozen=True)
class Decoded:
    """What a line says: its fields, and the strongest row that fits, with its action."""

    detail: dict[str, Any]
    action: str
    investigate: str
    severity: str  # of the row: nonfatal, link_fatal, fatal, …
    guess: bool = False


def is_nvlink5(text: str) -> bool:
    """Tell whether a text has the form of an NVLink 5 line, whatever number stands before it."""
    return _LINE.search(text) is not None


def decode(code: int, text: str, driver: Optional[str] = None) -> Optional[Decoded]:
    """Return what the line means, None if `text` is not of that form."""
    match = _LINE.search(text)
    words = [] if match is None else re.findall(r"0[xX][0-9a-fA-F]{1,8}", match["words"])
    if match is None or len(words) < 1:
        return None
    info = int(words[0], 16)
    status = int(words[1], 16) if len(words) > 1 else None
    fatal = match["severity"] == "Fatal"
    layout, rules = _matching(code, match["unit"], info, status, driver)
    detail = _detail(match, words, layout, info)
    if code == 149:
        detail["link_down_reason"] = info >> 20 & 0x3F
    if match["unit"] == "RLW_SRC_TRACK" and status is not None and status & _PACKET_LOSS:
        detail["packet_loss"] = True
    if not rules:
        action = "reset_gpu" if fatal else "recovery_action_else_restart_app"
        severity = "fatal" if fatal else "nonfatal"
        return Decoded(detail, action, "contact_support", severity, guess=True)
    return _strongest(rules, layout, info, detail)


@cache
def explains_killed_channel(code: int) -> bool:
    """Tell whether a mild form of `code` ends a program, so that an Xid 45 follows."""
    return any(
        row["xid"] == code
        and row["severity"] == "nonfatal"
        and "xid_45_app_crash" in row["local_effects"]
        for row in table("nvlink5")["rules"]
    )


def _detail(match: "re.Match[str]", words: list[str], layout: str, info: int) -> dict[str, Any]:
    return {
        "unit": match["unit"],
        "severity": "Fatal" if match["severity"] == "Fatal" else "Nonfatal",
        "cross_contain": match["cross"] != "XC0",
        "injected": match["injected"] != "i0",
        "link": int(match["link"]),
        "intr_info": words[0],
        "error_status": words[1] if len(words) > 1 else None,
        "debug": words[2:],
        "layout": layout,
        "promoted": bool(info & _PROMOTED[layout]),
    }


def _matching(
    code: int, unit: str, info: int, status: Optional[int], driver: Optional[str]
) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the layout that fits best, and its rows; the driver's own layout is asked first."""
    known = branch(driver)
    first = "v2" if known is not None and known >= _SECOND_LAYOUT else "v1"
    layouts = (first, "v1" if first == "v2" else "v2")
    for layout in layouts:
        rows = [row for row in _rows(code, layout, unit) if _fits(row, layout, info, status)]
        if rows:
            return layout, rows
    for layout in layouts:
        if _rows(code, layout, unit):
            return layout, []
    return first, []


def _rows(code: int, layout: str, unit: str) -> list[Mapping[str, Any]]:
    key = "unit" if layout == "v1" else "unit_v2"
    return [row for row in table("nvlink5")["rules"] if row["xid"] == code and row[key] == unit]


def _fits(row: Mapping[str, Any], layout: str, info: int, status: Optional[int]) -> bool:
    normal = _hit(row[layout], info)
    raised = "escalated" in row and _hit(row["escalated"][layout], info)
    if not (normal or raised):
        return False
    if row["status_match"] == "any":
        return True
    values = [int(word, 16) for word in row["error_status"] or ()]
    if status is None:
        return False
    if row["status_match"] == "equal":
        return status in values
    return any(status & value for value in values)


def _hit(form: Mapping[str, str], info: int) -> bool:
    return info & int(form["mask"], 16) == int(form["value"], 16)


def _strongest(
    rules: list[Mapping[str, Any]], layout: str, info: int, detail: dict[str, Any]
) -> Decoded:
    def judged(row: Mapping[str, Any]) -> tuple[str, str]:
        if "escalated" in row and not _hit(row[layout], info):
            return str(row["escalated"]["action"]), "fatal"
        return str(row["action"]), str(row["severity"])

    row = max(rules, key=lambda row: (action_rank(judged(row)[0]), row["investigate"] != "none"))
    action, severity = judged(row)
    return Decoded(detail, action, str(row["investigate"]), severity)
