"""How findings name processes and things: on one line, each cause once, no longer than helps."""

from collections.abc import Iterable
from dataclasses import replace

from gpuguard.agent.processes import command_line, stat
from gpuguard.model.plans import Finding, Level

_COMMAND = 80
_LISTED = 3


def one_line(text: str) -> str:
    """Return the text with line ends and other control characters escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def named(pid: int) -> str:
    """Return a process as a person knows it: number and command."""
    return f"process {pid} ({_command(pid)})"


def named_together(pids: list[int], where: str = "") -> str:
    """Return processes as one subject: one in full, more by number with the first one's command."""
    if len(pids) == 1:
        return f"{named(pids[0])}{where}"
    return f"{len(pids)} processes{where} ({_command(pids[0])}; pids {listed(pids)})"


def listed(things: Iterable[object]) -> str:
    """Return the first few things, and that there are more."""
    texts = [str(thing) for thing in things]
    return ", ".join(texts[:_LISTED]) + (", …" if len(texts) > _LISTED else "")


def fold(findings: Iterable[Finding]) -> list[Finding]:
    """Return each kind of error once, with the first sentence and how many more there are."""
    kept: dict[object, list[Finding]] = {}
    for number, item in enumerate(findings):
        key = item.code if item.level is Level.ERROR else number
        kept.setdefault(key, []).append(item)
    return [_folded(group) for group in kept.values()]


def _folded(group: list[Finding]) -> Finding:
    more = len(group) - 1
    return replace(group[0], text=f"{group[0].text}; and {more} more alike") if more else group[0]


def _command(pid: int) -> str:
    words = one_line(b" ".join(command_line(pid)).decode(errors="replace"))
    if len(words) > _COMMAND:
        return words[: _COMMAND - 1] + "…"
    entry = stat(pid)
    return words or (one_line(entry.name) if entry else "gone")
