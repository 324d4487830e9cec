"""One line of the tables of preflight."""

from dataclasses import dataclass

from gpuguard.model.plans import Level


@dataclass(frozen=True)
class Code:
    """A finding that can be made: how much it weighs, what it means, what helps."""

    level: Level
    meaning: str
    remedy: str
    rule: str = ""  # of a verdict on a host; the dump side has none


def error(meaning: str, remedy: str, rule: str = "") -> Code:
    """Return an entry that refuses."""
    return Code(Level.ERROR, meaning, remedy, rule)


def warning(meaning: str, remedy: str, rule: str = "") -> Code:
    """Return an entry that a person should see."""
    return Code(Level.WARNING, meaning, remedy, rule)


def remark(meaning: str, remedy: str, rule: str = "") -> Code:
    """Return an entry that only tells."""
    return Code(Level.INFO, meaning, remedy, rule)
