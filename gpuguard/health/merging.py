"""Merge events and other lines to incidents: one for each device and cause."""

from collections import deque
from collections.abc import Callable
from typing import Optional

from gpuguard.health.events import Context, Event, Incident
from gpuguard.health.findings import judge
from gpuguard.health.incidents import AFTER_EFFECTS, Open
from gpuguard.health.stamps import Prefix
from gpuguard.health.verdicts import conclude, neighbours_of

_SAME_BURST_SECONDS = 15.0  # lines of a 13 within this are one fault
_REPEAT_SECONDS = 24 * 3600.0
_BUS_SECONDS = 300.0  # PCIe errors this long before a loss belong to it
_MOST_OPEN = 1024  # devices of all hosts together
_MOST_AROUND = 128  # devices of one host
_MOST_PLACES = 1024

Key = tuple[Optional[str], str]
Place = tuple[Optional[str], str, int, int]


class Merger:
    """Take events and contexts in the log's order; tell each incident once, when it is over."""

    def __init__(self, tell: Callable[[Incident], None], driver: Optional[str] = None) -> None:
        self.driver = driver
        self.untrusted = 0
        self._told_driver = driver  # what a person said outranks what the log says
        self._tell = tell
        self._open: dict[Key, Open] = {}
        self._hosts: dict[str, dict[Optional[str], None]] = {}  # of the open ones, by address
        self._ended: deque[Open] = deque(maxlen=64)
        self._uuids: dict[Key, Optional[str]] = {}
        self._bus: deque[Context] = deque(maxlen=16)
        self._places: dict[Place, tuple[str, float]] = {}

    def take(self, event: Event) -> Optional[Open]:
        """Take an event; return its open incident, None if the kernel did not write the line."""
        event.uuid = self._uuids.get((event.prefix.host, event.pci))
        finding = judge(event, self.driver)
        if event.trusted is False:
            self.untrusted += 1
            return None
        fresh = event.code not in AFTER_EFFECTS
        incident = self._incident(event.pci, event.line, event.prefix, fresh)
        incident.switch = event.kind == "sxid"
        incident.take(event, finding)
        if event.code == 13:
            self._note_place(event, incident)
        return incident

    def take_context(self, context: Context) -> None:
        """Take a line that is no event but tells more of one."""
        if context.prefix.trusted is False:
            return
        handler = _HANDLERS.get(context.kind)
        if handler is not None:
            handler(self, context)

    def close(self) -> None:
        """End every open incident."""
        self._end(list(self._open))

    def _incident(self, pci: str, line: int, prefix: Prefix, fresh: bool) -> Open:
        key = self._key(prefix.host, pci)
        known = self._open.get(key)
        if known is not None and (
            (fresh and known.cleared) or known.over(prefix.axis, prefix.seconds)
        ):
            self._end([key])
            known, key = None, (prefix.host, pci)
        if known is None:
            if len(self._open) >= _MOST_OPEN:
                oldest = sorted(self._open, key=lambda one: self._open[one].last_line)
                self._end(oldest[: _MOST_OPEN // 4])
            known = Open(pci, prefix.host, line, line, uuid=self._uuids.get(key))
            self._open[key] = known
            self._hosts.setdefault(pci, {})[key[0]] = None
        return known

    def _key(self, host: Optional[str], pci: str) -> Key:
        """Return under which key a device is open; a log may name its host in some lines only."""
        key = (host, pci)
        if key in self._open:
            return key
        if host is not None:
            return (None, pci) if (None, pci) in self._open else key
        named = self._hosts.get(pci, ())
        return (next(iter(named)), pci) if len(named) == 1 else key

    def _end(self, keys: list[Key]) -> None:
        around: dict[Optional[str], list[Open]] = {}
        for incident in (*self._ended, *self._open.values()) if keys else ():
            around.setdefault(incident.host, []).append(incident)
        for key in keys:
            incident = self._open[key]
            incident.closed = True
            others = around[incident.host][-_MOST_AROUND:]
            verdict = conclude(incident, self.driver, neighbours_of(incident, others))
            if verdict is not None:
                self._tell(verdict)
        for key in keys:
            self._ended.append(self._open.pop(key))
            hosts = self._hosts[key[1]]
            del hosts[key[0]]
            if not hosts:
                del self._hosts[key[1]]

    def _note_place(self, event: Event, incident: Open) -> None:
        """Remember where a 13 hit, and see whether the same place was hit in another burst."""
        seconds = event.prefix.seconds
        if seconds is None or "gpc" not in event.detail:
            return
        place = (event.prefix.host, event.pci, event.detail["gpc"], event.detail["tpc"])
        axis, last = self._places.get(place, ("", 0.0))
        passed = seconds - last
        if axis == event.prefix.axis and _SAME_BURST_SECONDS < passed <= _REPEAT_SECONDS:
            incident.repeats = True
        if len(self._places) >= _MOST_PLACES:
            self._places.clear()
        self._places[place] = (event.prefix.axis, seconds)

    def _on_identity(self, context: Context) -> None:
        if context.pci is None:
            return
        if len(self._uuids) >= _MOST_OPEN:
            self._uuids.clear()
        key = (context.prefix.host, context.pci)
        self._uuids[key] = context.fields.get("uuid")
        if key in self._open:
            self._open[key].uuid = context.fields.get("uuid")

    def _on_lost(self, context: Context) -> None:
        if context.pci is None:
            return
        incident = self._incident(context.pci, context.line, context.prefix, fresh=True)
        incident.lost = context.fields.get("at", "running")
        incident.standing = True
        incident.see(context.line, context.prefix)
        self._add_bus_errors(incident)

    def _on_rate_limit(self, context: Context) -> None:
        incident = self._open.get((context.prefix.host, context.pci or ""))
        if incident is not None:
            incident.undercount = True
            incident.see(context.line, context.prefix)

    def _on_bus_error(self, context: Context) -> None:
        self._bus.append(context)

    def _on_stuck(self, context: Context) -> None:
        for incident in self._open.values():
            same = incident.host == context.prefix.host
            if same and context.fields["pid"] in incident.pids:
                incident.stuck = context
                incident.standing = True
                incident.see(context.line, context.prefix)

    def _on_driver(self, context: Context) -> None:
        self._on_boot(context)
        self.driver = self._told_driver or context.fields.get("driver")

    def _on_boot(self, context: Context) -> None:
        self._end([key for key in self._open if key[0] == context.prefix.host])

    def add_loss_evidence(self, incident: Open) -> None:
        """Add what the bus told before to an incident of a lost GPU."""
        self._add_bus_errors(incident)

    def _add_bus_errors(self, incident: Open) -> None:
        for context in self._bus:
            passed = _seconds_before(context.prefix, incident)
            same = context.prefix.host == incident.host
            if same and context.pci and (passed is None or -1 <= passed <= _BUS_SECONDS):
                incident.add_evidence(_bus_sentence(context, passed))


def _seconds_before(prefix: Prefix, incident: Open) -> Optional[float]:
    if prefix.axis != incident.axis or prefix.seconds is None or incident.first_seconds is None:
        return None
    return incident.first_seconds - prefix.seconds


def _bus_sentence(context: Context, passed: Optional[float]) -> str:
    when = "" if passed is None else f", {max(passed, 0.0):.1f} s before"
    if context.kind == "hotplug":
        return f"the slot reported its card gone{when}"
    if context.kind == "aer_no_driver":
        return f"the bus could not recover {context.pci}{when}"
    cause = context.fields.get("cause")
    what = f" ({cause})" if cause else ""
    return f"{context.fields.get('severity')} PCIe error{what} on port {context.pci}{when}"


_HANDLERS: dict[str, Callable[[Merger, Context], None]] = {
    "gpu_identity": Merger._on_identity,
    "gpu_lost": Merger._on_lost,
    "rate_limit": Merger._on_rate_limit,
    "aer": Merger._on_bus_error,
    "aer_no_driver": Merger._on_bus_error,
    "hotplug": Merger._on_bus_error,
    "hung_task": Merger._on_stuck,
    "driver_load": Merger._on_driver,
    "boot": Merger._on_boot,
}
