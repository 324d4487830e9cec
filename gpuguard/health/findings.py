"""What one fault line means by itself, before its neighbours are looked at."""

from dataclasses import dataclass, replace
from typing import Any, Optional

from gpuguard.health import nvlink5
from gpuguard.health.catalog import Row, sxid_row, xid_row
from gpuguard.health.events import Event
from gpuguard.health.nvlink4 import judge_bits, kinds_of
from gpuguard.health.remedies import NOTHING_KNOWN, recovery_word

SEVERITIES = ("info", "warning", "error", "critical")
SCOPES = ("informational", "application", "gpu", "node")
PRECURSORS = frozenset({48, 171, 172})  # told again, with the reach, by 94 or 95
LOST = 79


@dataclass(frozen=True)
class Finding:
    """The meaning of one line. `action` and `investigate` are words of the catalogs."""

    code: int
    scope: str
    severity: str
    action: str
    why: str
    investigate: Optional[str] = None
    followup: Optional[str] = None
    live_checkpoint: str = "unknown"
    known: bool = True
    guess: bool = False
    kinds: tuple[str, ...] = ()  # of the registers of a 74

    def at_least(self, scope: str, severity: str) -> "Finding":
        """Return the finding with at least this reach and weight."""
        return replace(
            self, scope=worse(self.scope, scope, SCOPES), severity=heavier(self.severity, severity)
        )


def worse(one: str, other: str, order: tuple[str, ...]) -> str:
    """Return the later one of two words of `order`."""
    return max(one, other, key=order.index)


def heavier(one: str, other: str) -> str:
    """Return the heavier one of two severities."""
    return worse(one, other, SEVERITIES)


def judge(event: Event, driver: Optional[str] = None) -> Finding:
    """Return what `event` means under `driver`."""
    if event.kind == "sxid":
        return _judge_switch(event, driver)
    if event.code in nvlink5.CODES:
        decoded = nvlink5.decode(event.code, event.text, driver)
        if decoded is not None:
            event.detail.update(decoded.detail)
            return _judge_link5(event.code, decoded)
    return _judge_row(event, _row(event, driver))


def _row(event: Event, driver: Optional[str]) -> Optional[Row]:
    """Return the catalog's row; where the driver is not known the text may tell the branch."""
    text = event.text.lower()
    if driver is None and event.code == 144 and "rotation" in text:
        driver = "550.163.01"
    elif driver is None and event.code == 139 and "fast path" in text.replace("_", " "):
        driver = "535.43.09"
    return xid_row(event.code, driver)


def judge_code(code: int, driver: Optional[str] = None) -> Finding:
    """Return what a number means whose line was not seen."""
    if code in nvlink5.CODES:
        row = xid_row(code, driver)
        seen = _of_row(row, code) if row else _unknown(code)
        seen = replace(seen, action="follow_recovery_action", investigate=None)
        mild = nvlink5.explains_killed_channel(code)
        return replace(seen, scope="application", severity="warning") if mild else seen
    return judge(Event(line=0, kind="xid", pci="", code=code, text=""), driver)


def _judge_row(event: Event, row: Optional[Row]) -> Finding:
    if row is None:
        return _unknown(event.code)
    # `code` stays as printed, also where the row stands for another number.
    base = _of_row(row, event.code)
    special = _SPECIAL.get(int(row["code"]))
    return special(base, event.detail) if special else base


def _of_row(row: Row, code: int) -> Finding:
    investigate = row.get("investigate")
    return Finding(
        code=code,
        scope=row["scope"],
        severity=row["severity"],
        action=row["action"],
        why=row["meaning"],
        investigate=_WALKED.get(investigate, investigate) if investigate else None,
        live_checkpoint=row["live_checkpoint"],
    )


# Workflows whose first answer does not hang on the text.
_WALKED = {
    "none": None,
    "workflow_xid_13": "check_application",
    "workflow_xid_31": "check_application",
    "workflow_xid_137": "check_application",
    "workflow_xid_45": None,
    "workflow_xid_48": None,
    "workflow_nvlink5": None,
}


def _unknown(code: int) -> Finding:
    return Finding(
        code=code,
        scope="gpu",
        severity="warning",
        action=NOTHING_KNOWN,
        why="this number is in no catalog: recorded, and never a reason for an automatic reset",
        investigate=NOTHING_KNOWN,
        known=False,
    )


def _judge_45(base: Finding, detail: dict[str, Any]) -> Finding:
    del detail
    why = "the driver removed a program's channels, and nothing in the log says why"
    return replace(base, action="restart_app", why=why)


def _judge_48(base: Finding, detail: dict[str, Any]) -> Finding:
    if detail.get("memory") == "sram":
        why = "uncorrectable error in on-chip memory"
        return replace(base, action="reset_gpu", why=why, investigate="contact_support")
    return replace(base, action="reset_gpu")


def _judge_63(base: Finding, detail: dict[str, Any]) -> Finding:
    if detail.get("memory_repair") == "page_retired":
        why = "a bad memory page is retired at the next reset; no program is hit by this itself"
    else:
        why = "a bad memory row is replaced at the next reset; no program is hit by this itself"
    return replace(base, why=why, followup="drain_and_reset")


def _judge_74(base: Finding, detail: dict[str, Any]) -> Finding:
    bits = detail.get("bits")
    if bits is None:
        return replace(base, action="contact_support", investigate="contact_support")
    action, investigate = judge_bits(bits)
    kinds = kinds_of(bits)
    why = f"NVLink registers say: {', '.join(kind.replace('_', ' ') for kind in kinds)}"
    look = None if investigate == "none" else investigate
    return replace(base, action=action, investigate=look, why=why, kinds=tuple(kinds))


def _judge_containment(base: Finding, detail: dict[str, Any]) -> Finding:
    """Let the flags of the line outrank the number."""
    reset, drain = detail.get("rst"), detail.get("drst")
    if reset is None and drain is None:
        return base
    if reset:
        why = "the line's RST flag asks for a reset"
        return replace(base, action="reset_gpu", why=why).at_least("gpu", "error")
    if drain:
        why = "the line's D-RST flag asks to drain the GPU, then to reset it"
        return replace(base, action="drain_and_reset", why=why)
    everyone = "every program on the GPU" if base.code == 95 else "the program that was hit"
    why = f"the line's flags ask for no reset: {everyone} is lost, the GPU goes on"
    return replace(base, action="restart_app", why=why)


def _judge_154(base: Finding, detail: dict[str, Any]) -> Finding:
    value = detail.get("recovery_to")
    if value is None:
        why = "the new value is lost: ask the driver for its recovery action"
        return replace(base, why=why, investigate=None)
    word = recovery_word(value) or NOTHING_KNOWN
    return replace(base, action=word, why=f"the driver's recovery action is {value}")


_SPECIAL = {
    45: _judge_45,
    48: _judge_48,
    171: _judge_48,
    172: _judge_48,
    63: _judge_63,
    74: _judge_74,
    94: _judge_containment,
    95: _judge_containment,
    154: _judge_154,
}


def _judge_link5(code: int, decoded: nvlink5.Decoded) -> Finding:
    row = xid_row(code)
    base = _of_row(row, code) if row else _unknown(code)
    mild = decoded.severity.startswith("nonfatal")
    guess = "no row of the table fits, guessed from the word in the line: " if decoded.guess else ""
    detail = decoded.detail
    found = replace(
        base,
        action=decoded.action,
        investigate=None if decoded.investigate == "none" else decoded.investigate,
        why=f"{guess}{detail['unit']} {detail['severity']} on link {detail['link']}",
        severity="warning" if mild else heavier(base.severity, "error"),
        guess=decoded.guess,
    )
    if decoded.action == "recovery_action_else_restart_app":
        return replace(found, scope="application")
    return found


def _judge_switch(event: Event, driver: Optional[str]) -> Finding:
    text = str(event.detail.get("error", event.text))
    row = sxid_row(event.code, driver, text)
    if row is None:
        return _unknown(event.code)
    fatal = event.fatal
    action = str(row["action"])
    if fatal and action not in ("reset_fabric", "reset_link_partition"):
        action = "reset_fabric"
    elif fatal is False and action in ("reset_fabric", "reset_link_partition", "contact_support"):
        action = "none"
    severity, scope = _SWITCH_WEIGHT.get(action, ("warning", "gpu"))
    return Finding(event.code, scope, severity, action, str(row["meaning"]))


_SWITCH_WEIGHT = {
    "none": ("info", "informational"),
    "reset_link_partition": ("error", "gpu"),
    "reset_fabric": ("critical", "node"),
}
