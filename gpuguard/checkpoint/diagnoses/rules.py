"""What a rule is: a pattern over one line, and the finding told when it holds."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from gpuguard.checkpoint.diagnoses.facts import first, number, pick, process_name, show
from gpuguard.checkpoint.diagnoses.lines import LogLine

_FAILED_PID = re.compile(r"\(pid: (\d+)\) failed|Can't open (\d+)'s|on (\d+)'s map")
_TASK_KEYS = ("task", "process", "stuck", "stuck_task", "blocked")
_FAILED_FD = re.compile(r"Unable to open fd=(\d+)")


@dataclass(frozen=True)
class Finding:
    """A cause told: one sentence with the concrete values, and what to do next."""

    cause: str
    sentence: str
    remedy: str
    confidence: str = "high"


@dataclass(frozen=True)
class Case:
    """One failed (or only seemingly good) run of CRIU or of a CUDA step."""

    lines: tuple[LogLine, ...]
    context: Mapping[str, Any]
    rc: Optional[int] = None
    verdict: Optional[str] = None
    log: Optional[str] = None

    @property
    def job(self) -> str:
        """Return the job's name, for use in a command."""
        return job_name(self.context)


@dataclass(frozen=True)
class Sight:
    """One line of a case that a rule recognised."""

    case: Case
    line: LogLine
    groups: Mapping[str, Optional[str]] = field(default_factory=dict)

    @property
    def context(self) -> Mapping[str, Any]:
        """Return what is known beside the log."""
        return self.case.context

    def having(self, **groups: Optional[str]) -> "Sight":
        """Return the same sight with more or other groups."""
        return Sight(self.case, self.line, {**self.groups, **groups})

    def later(self, pattern: "re.Pattern[str]") -> Optional[str]:
        """Return the first group that `pattern` finds in or after this line."""
        start = next(n for n, line in enumerate(self.case.lines) if line is self.line)
        for line in self.case.lines[start:]:
            match = pattern.search(line.text)
            if match:
                return next((group for group in match.groups() if group), None)
        return None

    def pid(self) -> Optional[int]:
        """Return the process concerned: by the line, by the lines after it, by the context."""
        named = number(self.groups.get("pid")) or self.line.pid
        return named or number(self.later(_FAILED_PID)) or self._known_pid()

    def _known_pid(self) -> Optional[int]:
        places = [("pid",), *((key, "pid") for key in _TASK_KEYS)]
        known = [number(pick(self.context, *place)) for place in places]
        return next((pid for pid in known if pid), None)

    def fd(self) -> Optional[int]:
        """Return the descriptor concerned, if one is named."""
        known = number(self.groups.get("fd"))
        later = number(self.later(_FAILED_FD)) if known is None else known
        return number(pick(self.context, "fd")) if later is None else later


Explain = Callable[[Sight], Finding]


@dataclass(frozen=True)
class Rule:
    """`explain` is asked when `pattern` is found; `about` names context keys worth showing."""

    pattern: "re.Pattern[str]"
    explain: Explain
    about: str = ""


def rule(pattern: str, explain: Explain, about: str = "") -> Rule:
    """Return a rule with its pattern compiled."""
    return Rule(re.compile(pattern), explain, about)


def told(cause: str, sentence: str, remedy: str, confidence: str = "high") -> Explain:
    """Return an explanation made of two texts with places for the words of `fill`."""
    return lambda sight: Finding(cause, fill(sentence, sight), fill(remedy, sight), confidence)


def upper_first(text: str) -> str:
    """Return `text` with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def fill(text: str, sight: Sight) -> str:
    """Return `text` with its places filled from the line's groups and the context."""
    return text.format_map(_Words(sight))


class _Words(dict[str, str]):
    def __init__(self, sight: Sight) -> None:
        super().__init__({key: value or "" for key, value in sight.groups.items()})
        self._sight = sight

    def __missing__(self, key: str) -> str:
        return WORDS[key](self._sight)


def job(sight: Sight) -> str:
    """Return the job's name, for use in a command."""
    return job_name(sight.context)


def job_name(context: Mapping[str, Any]) -> str:
    """Return the job's name, JOB where the context has none."""
    value = first(context, "job", "job_name")
    value = value.get("name") if isinstance(value, Mapping) else value
    return value if isinstance(value, str) and value else "JOB"


def host(sight: Sight) -> str:
    """Return the name of the host where it failed, for use in a command."""
    place = pick(sight.context, "destination", "host") or first(sight.context, "host", "node")
    return place if isinstance(place, str) and place else "HOST"


def task(sight: Sight) -> str:
    """Return the process concerned in words."""
    pid = sight.pid()
    if pid is None:
        return "a process of the job"
    name = process_name(sight.context, pid)
    return f"process {pid} ({name})" if name else f"process {pid}"


def holder(sight: Sight) -> str:
    """Return who holds the thing in question, as far as the context knows."""
    value = first(sight.context, "holder", "holders", "held_by", "owner", "user_of_port")
    if isinstance(value, Mapping):
        name = value.get("comm") or value.get("name") or value.get("command")
        rest = {k: v for k, v in value.items() if v is not name}
        shown = f"{name} ({show(rest)})" if rest else str(name)
        return shown if name else show(value)
    return show(value) if value else "another process"


def _tool(label: str, key: str, unknown: str) -> Callable[[Sight], str]:
    def word(sight: Sight) -> str:
        value = first(sight.context, key)
        return f"{label} {value}" if isinstance(value, (str, float, int)) else unknown

    return word


def _place(sight: Sight) -> str:
    name = host(sight)
    return "this host" if name == "HOST" else name


WORDS: dict[str, Callable[[Sight], str]] = {
    "job": job,
    "HOST": host,
    "host": _place,
    "task": task,
    "pid": lambda sight: str(sight.pid() or "PID"),
    "holder": holder,
    "criu": _tool("CRIU", "criu", "CRIU"),
    "kernel": _tool("kernel", "kernel", "kernel"),
    "driver": _tool("driver", "driver", "this driver"),
}
