"""Read a kernel log of any form and size: events, other lines that matter, incidents.

Bytes go in, whole lines or not; what is found comes out through callables. Memory is bounded: a
flood is counted, its lines are not kept.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

from gpuguard.health import sxid_lines, xid_lines
from gpuguard.health.blocks import LONGEST, Finder, Lines
from gpuguard.health.contexts import HUNG_TAIL, Reader, read_hotplug
from gpuguard.health.events import Context, Event, Incident
from gpuguard.health.floods import Counts, Floods
from gpuguard.health.journal_json import unpack
from gpuguard.health.merging import Merger
from gpuguard.health.prefixes import Prefixes
from gpuguard.health.stamps import Prefix

_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")  # of dmesg and journalctl at a terminal
_ANCHORS = (b"NVRM: ", b"NVRM:", b"pcieport ", b"nvidia 0", b"INFO: task ", b"Linux version ")


def _nothing(found: object) -> None:
    del found


@dataclass
class Tellers:
    """Who is told of what is found; incidents are told when they are over."""

    event: Callable[[Event], None] = _nothing
    context: Callable[[Context], None] = _nothing
    incident: Callable[[Incident], None] = _nothing


class KernelLog:
    """A parser of one log. `driver` outranks what the log itself says of the driver."""

    def __init__(self, tellers: Tellers, driver: Optional[str] = None) -> None:
        self.counts = Counts()
        self._tell = tellers
        self._merger = Merger(tellers.incident, driver)
        self._prefixes = Prefixes()
        self._floods = Floods(self.counts, self._prefixes)
        self._lines = Lines()
        self._contexts = Reader()
        self._switches = sxid_lines.Switches()
        self._follow = 0  # lines that may belong to the report of a stuck task

    @property
    def untrusted(self) -> int:
        """How many events some program wrote into the kernel's log."""
        return self._merger.untrusted

    @property
    def driver(self) -> Optional[str]:
        """The driver's version, as far as it is known."""
        return self._merger.driver

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the log."""
        self._block(self._lines.feed(data))

    def settle(self) -> None:
        """Tell what only waited for more lines of the same error; for when a live log is quiet."""
        self._settle(self._switches.close())

    def close(self) -> None:
        """Read what is left and end every incident."""
        self._block(self._lines.close())
        self.settle()
        self._merger.close()

    def _block(self, block: bytes) -> None:
        if not block:
            return
        finder = Finder(block)
        number, counted = self.counts.lines, 0
        place = 0
        if self._follow:
            place, number = self._after_hung(block, 0, number)
            counted = place
        while True:
            found = finder.line_from(place)
            if found is None:
                break
            begin, end = found
            number += block.count(b"\n", counted, begin)
            place, after = self._floods.run(block, begin, number)
            if place == begin:
                self._floods.settle()
                self._line(block[begin : min(end, begin + LONGEST)], number)
                place, after = end + 1, number + 1
                if self._follow:
                    place, after = self._after_hung(block, place, after)
            number, counted = after, place
        self._floods.settle()
        self.counts.lines = number + block.count(b"\n", counted) - (counted > len(block))

    def _after_hung(self, block: bytes, begin: int, number: int) -> tuple[int, int]:
        """Read the lines after a stuck task's first; return where reading goes on as before."""
        while self._follow and begin < len(block):
            end = block.find(b"\n", begin)
            end = len(block) if end < 0 else end
            line = block[begin : min(end, begin + LONGEST)]
            if b"NVRM" in line or b"Xid (" in line or b"INFO: task" in line:
                self._follow = 0
                break
            self._follow -= 1
            text = line.decode("utf-8", "replace")
            self._contexts.read_after_hung(_message_of(text), number)
            begin, number = end + 1, number + 1
        return begin, number

    def _line(self, line: bytes, number: int) -> None:
        line = line.rstrip(b"\r")
        if b"\x1b[" in line:
            line = _COLOUR.sub(b"", line)
        if line[:1] == b"{":
            unpacked = unpack(line)
            if unpacked is not None:
                for part in unpacked[0].split(b"\n"):
                    self._message(part, number, unpacked[1])
                return
        if b";" in line[:64] and line[:1].isdigit():
            line = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), line)
        self._message(line, number, None)

    def _message(self, line: bytes, number: int, prefix: Optional[Prefix]) -> None:
        if b"Xid" in line:
            found = self._xids(line, number, prefix)
            found = self._switch_line(line, number, prefix) or found
            if found:
                return
            if xid_lines.BEGUN.search(line):
                self.counts.rejects += 1
                return
        self._other(line, number, prefix)

    def _xids(self, line: bytes, number: int, prefix: Optional[Prefix]) -> bool:
        headers = xid_lines.headers(line)
        if not headers:
            return False
        if prefix is None or headers[0].start > 0:
            traced = line[headers[0].start :].startswith(b"nvidia_dev_xid")
            shown = headers[0].start + (len(b"nvidia_dev_xid: ") if traced else 0)
            prefix = self._prefixes.of(line[:shown], prefix, traced)
        ends = [header.start for header in headers[1:]] + [len(line)]
        for header, end in zip(headers, ends):
            tail = line[header.end : end].decode("utf-8", "replace")
            event = xid_lines.event_of(header, tail, number, prefix)
            self._event(event, line[header.start : end])
        return True

    def _event(self, event: Event, raw: bytes) -> None:
        incident = self._merger.take(event)
        if incident is not None and event.code == 79:
            self._merger.add_loss_evidence(incident)
        self._floods.note(event, raw, incident)
        self._tell.event(event)

    def _switch_line(self, line: bytes, number: int, prefix: Optional[Prefix]) -> bool:
        matches = list(sxid_lines.HEADER.finditer(line))
        ends = [match.start() for match in matches[1:]] + [len(line)]
        found = False
        for match, end in zip(matches, ends):
            seen = self._prefixes.of(line[: matches[0].start()], prefix)
            tail = line[match.end() : end].decode("utf-8", "replace")
            text = tail.strip().removeprefix(",").strip()
            one = sxid_lines.line_of(match, text, number, seen)
            if one is not None:
                self._settle(self._switches.take(one))
                found = True
        return found

    def _settle(self, done: tuple[list[Event], list[sxid_lines.Line]]) -> None:
        events, orphans = done
        for event in events:
            self._merger.take(event)
            self._floods.note(event, b"", None)
            self._tell.event(event)
        for line in orphans:
            context = Context(line.number, "sxid_orphan", line.prefix, line.pci)
            self._tell.context(context)

    def _other(self, line: bytes, number: int, prefix: Optional[Prefix]) -> None:
        places = [(line.find(anchor), anchor) for anchor in _ANCHORS]
        found = [(place, anchor) for place, anchor in places if place >= 0]
        place, anchor = min(found, default=(0, b""))
        if not anchor:
            if b"pciehp" in line:
                self._context(read_hotplug(_text(line), number, self._prefixes.of(b"", prefix)))
            return
        seen = self._prefixes.of(line[:place], prefix)
        text = _text(line[place:])
        if anchor.startswith(b"NVRM"):
            rest = text[len("NVRM:") :].strip()
            self._context(self._contexts.read_driver(rest, number, seen))
        elif anchor.startswith(b"Linux"):
            if not seen.relayed:
                self._context(Context(number, "boot", seen, lines=[number]))
        elif anchor.startswith(b"INFO"):
            self._hung(text, number, seen)
        else:
            self._context(self._contexts.read_bus(text, number, seen))

    def _hung(self, text: str, number: int, prefix: Prefix) -> None:
        context = self._contexts.read_hung(text, number, prefix)
        if context is not None:
            self._follow = HUNG_TAIL
            self._context(context)

    def _context(self, context: Optional[Context]) -> None:
        if context is not None:
            self._merger.take_context(context)
            self._tell.context(context)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def _message_of(text: str) -> str:
    """Return a line without its stamp, for lines that no needle marks."""
    match = re.match(r"(?:.*?kernel: )?(?:\[[^\]]*\] ?)*", text)
    return text[match.end() :] if match else text
