"""Count lines that an open incident has had many times before, without reading them in full."""

import re
from dataclasses import dataclass, field
from typing import Any, Optional

from gpuguard.health.events import Event
from gpuguard.health.incidents import BURST_SECONDS, Open
from gpuguard.health.nvlink5 import CODES as LINK_CODES
from gpuguard.health.prefixes import Prefixes
from gpuguard.health.xid_lines import process_of

_MANY = 32  # lines of a number on a device are read in full
_MOST = 4096
_MOST_PIDS = 1024
_RECOVERY = 154  # the newest line of it decides, so each is read
# Codes whose text decides what is to be done, apart from flags.
_TEXTS = frozenset(b"%d" % code for code in (*LINK_CODES, 74))
_FLAGGED = frozenset({b"94", b"95"})
_LONGEST_PREFIX = 160
_HEAD = b"NVRM: Xid ("
_LINE = re.compile(rb"NVRM: Xid (\([^)\n]{5,40}\): (\d{1,6}))(?:, pid=(\d+))?([^\n]*)\n")
_EMPTY = object()

Key = tuple[object, ...]


@dataclass
class Counts:
    """What was read."""

    lines: int = 0
    rejects: int = 0  # lines that begin as a fault line and are none
    events: int = 0
    summary: dict[Key, int] = field(default_factory=dict)


@dataclass(eq=False)
class Known:
    """One kind of line of one open incident, and how many of it were seen."""

    incident: Open
    code: int
    count: int = 0
    raw: object = _EMPTY  # the prefix seen last
    number: int = 0
    waiting: dict[Optional[bytes], int] = field(default_factory=dict)
    keys: dict[Optional[bytes], Key] = field(default_factory=dict)

    def at(self, raw: bytes, prefixes: Prefixes) -> bool:
        """Move on to the time of a prefix; False if the line must be read after all."""
        incident = self.incident
        axis, seconds, last = "boot", prefixes.boot_seconds(raw), incident.last_seconds
        if (
            seconds is not None
            and last is not None
            and incident.axis == axis
            and incident.host is None
            and 0.0 <= seconds - last <= BURST_SECONDS
        ):
            incident.last_seconds, self.raw = seconds, raw  # the common case, told apart for speed
            return True
        if seconds is None:
            prefix = prefixes.of(raw)
            if prefix.repeat > 1 or prefix.trusted is False or prefix.host != incident.host:
                return False
            axis, seconds = prefix.axis, prefix.seconds
        elif incident.host is not None:
            return False
        if seconds is not None:
            if incident.over(axis, seconds):
                return False
            if axis == incident.axis and seconds > (incident.last_seconds or 0.0):
                incident.last_seconds = seconds
        self.raw = raw
        return True


class Floods:
    """Know which lines are floods; count every event by device, code and process."""

    def __init__(self, counts: Counts, prefixes: Prefixes) -> None:
        self._counts = counts
        self._prefixes = prefixes
        self._known: dict[bytes, Known] = {}
        self._touched: list[Known] = []
        self._processes: dict[object, tuple[Optional[int], Optional[str]]] = {}

    def run(self, block: bytes, begin: int, number: int) -> tuple[int, int]:
        """Count lines from `begin` on as long as they belong to floods; return where it ends."""
        known_of, find, prefixes = self._known.get, block.find, self._prefixes
        match_at = _LINE.match
        while True:
            start = find(_HEAD, begin, begin + _LONGEST_PREFIX)
            match = match_at(block, start) if start >= 0 else None
            if match is None:
                return begin, number
            raw = block[begin:start]
            head, code, pid, tail = match.groups()
            known = known_of(head) or known_of(_name(head, code, tail))
            if known is None or known.count < _MANY or b"Xid" in tail or known.incident.closed:
                return begin, number
            if raw != known.raw and (b"\n" in raw or not known.at(raw, prefixes)):
                return begin, number
            if not known.waiting:
                self._touched.append(known)
            if pid not in known.keys:
                pid = self._new_process(known, pid, tail)
            known.waiting[pid] = known.waiting.get(pid, 0) + 1
            known.number = number
            begin, number = match.end(), number + 1

    def settle(self) -> None:
        """Write what was counted to the incidents."""
        for known in self._touched:
            incident, total = known.incident, sum(known.waiting.values())
            incident.count += total
            incident.codes[known.code] += total
            incident.last_line = max(incident.last_line, known.number)
            if isinstance(known.raw, bytes):
                prefix = self._prefixes.of(known.raw)
                incident.last_time = incident.last_time if prefix.form == "none" else prefix.stamp
            self._counts.events += total
            summary, keys = self._counts.summary, known.keys
            for pid, count in known.waiting.items():
                key = keys[pid]
                if key in summary:
                    summary[key] += count
                else:
                    self._add(key, count)
            known.waiting.clear()
        self._touched.clear()

    def _new_process(self, known: Known, pid: Optional[bytes], tail: bytes) -> Optional[bytes]:
        incident = known.incident
        number = name = None
        if len(known.keys) < _MOST_PIDS:
            number, name = self._process(pid, tail)
            incident.name_process(number, name)
        else:
            pid = None  # from here on only the number of lines is told
        known.keys[pid] = ("xid", incident.host, incident.pci, known.code, number, name)
        return pid

    def _process(self, pid: Optional[bytes], tail: bytes) -> tuple[Optional[int], Optional[str]]:
        key = (pid, b"".join(tail.split(b", ", 2)[:2]))
        if key not in self._processes:
            if len(self._processes) >= _MOST:
                self._processes.clear()
            self._processes[key] = process_of(_text(pid, tail))[:2]
        return self._processes[key]

    def note(self, event: Event, raw: bytes, incident: Optional[Open]) -> None:
        """Count an event that was read in full; `raw` is its line from the header on."""
        key = (event.kind, event.prefix.host, event.pci, event.code, event.pid, event.name)
        self._counts.events += event.prefix.repeat
        self._add(key, event.prefix.repeat)
        match = _LINE.match(raw + b"\n") if incident is not None else None
        if match is None or incident is None or event.code == _RECOVERY:
            return
        name = _name(match[1], match[2], match[4])
        known = self._known.get(name)
        if known is None or known.incident is not incident:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[name] = Known(incident, event.code)
        known.count += 1

    def _add(self, key: Key, count: int) -> None:
        summary = self._counts.summary
        if key not in summary and len(summary) >= _MOST:
            key = (*key[:4], None, None)  # too many processes: told by code alone
        if key in summary or len(summary) < 2 * _MOST:
            summary[key] = summary.get(key, 0) + count


def _name(head: bytes, code: bytes, tail: bytes) -> bytes:
    """Return what is alike in lines that mean the same."""
    if code in _FLAGGED:
        flags = b"RST: Yes, D-RST" in tail, b"D-RST: Yes" in tail, b"RST:" in tail
        return head + bytes(flags)
    return head + tail if code in _TEXTS else head


def _text(pid: Optional[bytes], tail: bytes) -> str:
    rest = tail.decode("utf-8", "replace")
    return f"pid={pid.decode('ascii')}{rest}" if pid else rest.removeprefix(",").lstrip()


def counted(summary: dict[Key, int]) -> list[dict[str, Any]]:
    """Return the summary in the words of the schema."""
    words = ("kind", "host", "pci", "code", "pid", "name")
    return [{**dict(zip(words, key)), "count": count} for key, count in summary.items()]
