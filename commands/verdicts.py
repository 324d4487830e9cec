"""Print what hosts say of taking a job over: host by host, rule by rule."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gpuguard.commands.output import paint
from gpuguard.commands.text import clean
from gpuguard.model.plans import Finding, Level

if TYPE_CHECKING:
    from gpuguard.running.verdicts import HostVerdict

_COLORS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.INFO: "cyan", Level.OK: "green"}
_WIDTH = 8


def verdict_lines(verdicts: "Iterable[HostVerdict]", every: bool) -> list[str]:
    """Return the lines of all hosts; without `every` the rules that hold share one line."""
    lines: list[str] = []
    for verdict in verdicts:
        lines += [_head(verdict), *_rules(verdict, every)]
    return lines


def verdict_items(verdicts: "Iterable[HostVerdict]") -> list[dict[str, Any]]:
    """Return the verdicts as JSON prints them: every finding with its rule."""
    from gpuguard.checkpoint.preflight_codes import rule_of

    return [
        {
            **verdict.to_dict(),
            "findings": [
                {"rule": rule_of(item.code), **item.to_dict()} for item in verdict.findings
            ],
        }
        for verdict in verdicts
    ]


def _head(verdict: "HostVerdict") -> str:
    if verdict.fits is None:
        reason = (verdict.error or {}).get("message", "it was not asked")
        return f"{verdict.host}: {paint('unknown', 'yellow')}: {clean(str(reason))}"
    word = paint("fits", "green") if verdict.fits else paint("does not fit", "red")
    return f"{verdict.host}: {word}"


def _rules(verdict: "HostVerdict", every: bool) -> list[str]:
    from gpuguard.checkpoint.preflight_codes import by_rule

    lines, fine = [], []
    for marked in by_rule(verdict.findings):
        for item in marked.findings:
            if item.level is Level.OK and not every:
                fine.append(marked.rule)
            else:
                lines += _rule(marked.rule, item)
    return [*lines, *([f"  {_word(Level.OK)}  {', '.join(fine)}"] if fine else [])]


def _rule(rule: str, item: Finding) -> list[str]:
    line = f"  {_word(item.level)}  {rule}: {clean(item.text)}"
    return [line, f"      {clean(item.remedy)}"] if item.remedy else [line]


def _word(level: Level) -> str:
    return paint(level.value, _COLORS[level]) + " " * (_WIDTH - len(level.value))
