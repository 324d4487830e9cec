"""Every finding that preflight can make: its code, what it means, and the remedy.

`docs/preflight.md` is tested against these tables.
"""

from dataclasses import dataclass
from typing import Optional

from gpuguard.checkpoint.dump_codes import DUMP
from gpuguard.checkpoint.restore_codes import RESTORE, RULES
from gpuguard.model.plans import Finding, Level

__all__ = ["DUMP", "RESTORE", "RULES", "found", "passed", "rule_of"]


def found(code: str, subject: str, text: str, remedy: Optional[str] = None) -> Finding:
    """Build the finding `code`; the remedy is the table's if none is given.

    `subject` is the job's name for what stands against saving it, the host's for what stands
    against bringing it back.

    Raises:
        KeyError: no table has the code.
    """
    if code in DUMP:
        entry, word = DUMP[code], "JOB"
    else:
        entry, word = RESTORE[code], "HOST"
    return Finding(entry.level, code, subject, text, remedy or entry.remedy.replace(word, subject))


def passed(rule: str, subject: str, text: str) -> Finding:
    """Build the finding that says that a rule was looked at and holds.

    Raises:
        KeyError: there is no such rule.
    """
    return Finding(Level.OK, _known(rule), subject, text)


def rule_of(code: str) -> str:
    """Return the rule a finding of a verdict belongs to; a rule that holds is its own code."""
    return RESTORE[code].rule if code in RESTORE else code


def _known(rule: str) -> str:
    if rule not in RULES:
        raise KeyError(rule)
    return rule


@dataclass(frozen=True)
class Marked:
    """A rule and its findings, for whoever shows them together."""

    rule: str
    findings: tuple[Finding, ...]


def by_rule(findings: tuple[Finding, ...]) -> list[Marked]:
    """Return the findings of a verdict by rule, in the order of the rules."""
    groups: dict[str, list[Finding]] = {}
    for item in findings:
        groups.setdefault(rule_of(item.code), []).append(item)
    order = [*RULES, *(rule for rule in groups if rule not in RULES)]
    return [Marked(rule, tuple(groups[rule])) for rule in order if rule in groups]
