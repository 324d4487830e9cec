"""NVSwitch errors: up to three kernel lines tell of one, in any order, and any may be missing."""

import re
from dataclasses import dataclass, field
from typing import Optional

from gpuguard.health.addresses import normal_address
from gpuguard.health.events import Event
from gpuguard.health.stamps import Prefix

HEADER = re.compile(
    rb"nvidia-nvswitch(\d{1,3}): SXid \(PCI:([0-9a-fA-F:.]{5,17})\): (\d{1,6})(?=[,\s]|$)"
)
_WORD = re.compile(r"(Fatal|Non-fatal|Correctable)\b,?\s*")
_LINK = re.compile(r"Link (-?\d+)\b\s*")
_SEVERITY = re.compile(r"Severity (\d+) Engine instance (\d+)(?: Sub-engine instance (\d+))?")
_DATA = re.compile(r"Data \{([^}]*)")
_INSTANCE = re.compile(r"\binstance=(\d+)")
_CHIPLET = re.compile(r"\bchiplet=(\d+)")
_LINK_CONTROLLER = 22
_NEAR_LINES = 64
_NEAR_SECONDS = 1.0
_MOST_OPEN = 64


@dataclass(frozen=True)
class Line:
    """One physical line of a switch."""

    number: int
    switch: int
    pci: str
    code: int
    text: str
    prefix: Prefix


@dataclass(eq=False)
class Open:
    """An error whose other lines may still come."""

    event: Event
    parts: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Orphan:
    """A data line that came before any line that says whose it is."""

    line: Line
    link: Optional[int]


class Switches:
    """Put the lines of switches together to errors."""

    def __init__(self) -> None:
        self._open: list[Open] = []
        self._orphans: list[Orphan] = []

    def take(self, line: Line) -> tuple[list[Event], list[Line]]:
        """Take a line; return the errors now complete, and data lines that stay alone."""
        done = self._forget(line)
        if line.text.startswith("Data {"):
            self._data(line)
            return done
        part, link = _part(line.text)
        known = self._matching(line, part, link)
        if known is not None:
            _add(known, line, part)
        else:
            self._open.append(Open(_event(line, part, link), {part}))
            self._adopt(self._open[-1])
        return done

    def close(self) -> tuple[list[Event], list[Line]]:
        """Return every error, and the data lines whose error was never seen."""
        done = [one.event for one in self._open], [one.line for one in self._orphans]
        self._open, self._orphans = [], []
        return done

    def _forget(self, line: Line) -> tuple[list[Event], list[Line]]:
        """Let go of what is too old to get more lines; both lists are in the log's order."""
        done, left = [], []
        while self._open and (
            len(self._open) > _MOST_OPEN
            or not _near(self._open[0].event.lines[-1], self._open[0].event.prefix, line)
        ):
            done.append(self._open.pop(0).event)
        while self._orphans and (
            len(self._orphans) > _MOST_OPEN
            or not _near(self._orphans[0].line.number, self._orphans[0].line.prefix, line)
        ):
            left.append(self._orphans.pop(0).line)
        return done, left

    def _data(self, line: Line) -> None:
        words = _words(line.text)
        # The link controller's first word is the number of the link; others print registers.
        link = words[0] if words and line.code // 1000 == _LINK_CONTROLLER else None
        mine = [one for one in self._open if _same(one.event, line) and "data" not in one.parts]
        for one in reversed([one for one in mine if link in (None, one.event.link)]):
            _add(one, line, "data")
            one.event.detail["data"] = words
            return
        self._orphans.append(Orphan(line, link))

    def _matching(self, line: Line, part: str, link: Optional[int]) -> Optional[Open]:
        for one in reversed(self._open):
            if not _same(one.event, line) or part in one.parts:
                continue
            if part in ("headline", "severity") and one.event.link == link:
                return one
            if part.startswith("free") and any(other.startswith("free") for other in one.parts):
                return one
        return None

    def _adopt(self, one: Open) -> None:
        for orphan in reversed(self._orphans):
            if _same(one.event, orphan.line) and orphan.link in (None, one.event.link):
                self._orphans.remove(orphan)
                _add(one, orphan.line, "data")
                one.event.detail["data"] = _words(orphan.line.text)
                return


def _part(text: str) -> tuple[str, Optional[int]]:
    severity = _SEVERITY.match(text)
    if severity:
        return "severity", int(severity[2])
    word = _WORD.match(text)
    if word:
        link = _LINK.match(text, word.end())
        return "headline", int(link[1]) if link else None
    return f"free {text}", None


def _event(line: Line, part: str, link: Optional[int]) -> Event:
    event = Event(
        line=line.number,
        kind="sxid",
        pci=line.pci,
        code=line.code,
        text=line.text,
        prefix=line.prefix,
        switch=line.switch,
        link=link,
    )
    _add(Open(event), line, part)
    return event


def _add(one: Open, line: Line, part: str) -> None:
    one.parts.add(part)
    event = one.event
    event.lines.append(line.number)
    if part == "severity":
        severity = _SEVERITY.match(line.text)
        if severity and event.fatal is None:
            event.fatal = int(severity[1]) != 0
        if severity and severity[3]:
            event.detail["sub_engine"] = int(severity[3])
    elif part == "headline":
        event.fatal = line.text.startswith("Fatal")  # the word wins over the digit
        event.line, event.text = line.number, line.text
        event.detail.update(_headline(line.text))


def _headline(text: str) -> dict[str, object]:
    found: dict[str, object] = {"first": text.rstrip().endswith("(First)")}
    for key, pattern in (("instance", _INSTANCE), ("chiplet", _CHIPLET)):
        match = pattern.search(text)
        if match:
            found[key] = int(match[1])
    word = _WORD.match(text)
    rest = text[word.end() :] if word else text
    found["error"] = _LINK.sub("", rest, count=1).removesuffix("(First)").strip()
    return found


def _words(text: str) -> list[int]:
    match = _DATA.match(text)
    return [int(word, 16) for word in re.findall(r"0[xX]([0-9a-fA-F]+)", match[1])] if match else []


def _same(event: Event, line: Line) -> bool:
    return (event.pci, event.code, event.prefix.host) == (line.pci, line.code, line.prefix.host)


def _near(last: int, prefix: Prefix, line: Line) -> bool:
    return line.number - last <= _NEAR_LINES and _at_once(prefix, line.prefix)


def _at_once(one: Prefix, other: Prefix) -> bool:
    if one.seconds is None or other.seconds is None or one.axis != other.axis:
        return True
    return abs(other.seconds - one.seconds) <= _NEAR_SECONDS


def line_of(match: "re.Match[bytes]", text: str, number: int, prefix: Prefix) -> Optional[Line]:
    """Return the switch's line of a header, None if its address is none."""
    pci = normal_address(match[2].decode("ascii"))
    if pci is None:
        return None
    return Line(number, int(match[1]), pci, int(match[3]), text, prefix)
