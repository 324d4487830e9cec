"""Faults of one device that belong together, while they are still coming in."""

from dataclasses import dataclass, field
from typing import Any, Optional

from gpuguard.health.events import Context, Event
from gpuguard.health.findings import SEVERITIES, Finding
from gpuguard.health.remedies import remedy_of
from gpuguard.health.stamps import Prefix
from gpuguard.model.actions import Action

BURST_SECONDS = 180.0  # of silence end a fault that leaves the GPU usable
STANDING_SECONDS = 3 * 3600.0  # of silence end one that only a reset or a boot can end
_MOST = 64  # names, pids and pieces of evidence kept
_CALLERS = frozenset({119, 120, 175})  # the process in these lines only waited
AFTER_EFFECTS = frozenset({43, 45, 154})


@dataclass(eq=False)
class Open:
    """One incident while it is open: what was seen so far, never the lines themselves."""

    pci: str
    host: Optional[str]
    first_line: int
    last_line: int
    axis: str = ""
    first_seconds: Optional[float] = None
    last_seconds: Optional[float] = None
    first_time: Any = None
    last_time: Any = None
    uuid: Optional[str] = None
    switch: bool = False
    count: int = 0
    codes: dict[int, int] = field(default_factory=dict)
    findings: dict[int, Finding] = field(default_factory=dict)
    previous: Optional[int] = None  # the cause that a 45 names
    lost: Optional[str] = None  # how the loss was told, apart from a 79
    recovery: Optional[int] = None  # the newest value of a 154
    undercount: bool = False
    slices: set[Optional[int]] = field(default_factory=set)
    pids: dict[int, None] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    stuck: Optional[Context] = None
    evidence: list[str] = field(default_factory=list)
    corrected_links: dict[Optional[int], int] = field(default_factory=dict)
    places: set[tuple[int, int]] = field(default_factory=set)  # GPC and TPC of a 13
    repeats: bool = False  # the same place as in an earlier burst
    standing: bool = False
    closed: bool = False

    @property
    def cleared(self) -> bool:
        """Whether the driver took its recovery action back."""
        return self.recovery == 0

    @property
    def callers_only(self) -> bool:
        """Whether the named processes only waited for the GPU."""
        return bool(self.codes) and set(self.codes) <= _CALLERS | {154}

    def take(self, event: Event, finding: Finding) -> None:
        """Take in an event and what it means."""
        times = event.prefix.repeat
        self.count += times
        self.codes[event.code] = self.codes.get(event.code, 0) + times
        self._keep(finding)
        self.slices.add(event.gi)
        self.name_process(event.pid, event.name)
        if event.code == 154 and event.detail.get("recovery_to") is not None:
            self.recovery = event.detail["recovery_to"]
        previous = event.detail.get("previous_xid")
        if previous is not None and previous not in AFTER_EFFECTS:
            self.previous = previous
        self._notice(event, finding)
        self.see(event.line, event.prefix)
        self.standing = self.standing or _stands(finding)

    def _keep(self, finding: Finding) -> None:
        known = self.findings.get(finding.code)
        # A 154 says what holds now; of any other number the heaviest line counts.
        if known is None or finding.code == 154 or _weight(finding) > _weight(known):
            self.findings[finding.code] = finding

    def _notice(self, event: Event, finding: Finding) -> None:
        if "ecc_repeat" in finding.kinds and len(self.corrected_links) < _MOST:
            link = event.detail.get("link")
            self.corrected_links[link] = self.corrected_links.get(link, 0) + event.prefix.repeat
        if event.code == 13 and "gpc" in event.detail and len(self.places) < _MOST:
            self.places.add((event.detail["gpc"], event.detail["tpc"]))

    def name_process(self, pid: Optional[int], name: Optional[str]) -> None:
        """Keep a process that a line names; it need not be the culprit."""
        if pid is not None and len(self.pids) < _MOST:
            self.pids[pid] = None
        if name is not None and len(self.names) < _MOST:
            self.names[name] = None

    def see(self, line: int, prefix: Prefix) -> None:
        """Note that the incident was alive at a line."""
        self.last_line = max(self.last_line, line)
        if prefix.form != "none":
            self.last_time = prefix.stamp
            self.first_time = prefix.stamp if self.first_time is None else self.first_time
        if prefix.seconds is None:
            return
        if self.first_seconds is None:
            self.axis, self.first_seconds = prefix.axis, prefix.seconds
        if prefix.axis == self.axis:
            self.last_seconds = max(self.last_seconds or 0.0, prefix.seconds)

    def over(self, axis: str, seconds: Optional[float]) -> bool:
        """Tell whether a line at `seconds` of `axis` comes too late to belong here."""
        if seconds is None or self.last_seconds is None or axis != self.axis:
            return False
        limit = STANDING_SECONDS if self.standing and not self.cleared else BURST_SECONDS
        return seconds - self.last_seconds > limit

    def add_evidence(self, text: str) -> None:
        """Keep a sentence that tells more of the cause."""
        if text not in self.evidence and len(self.evidence) < _MOST:
            self.evidence.append(text)


def _weight(finding: Finding) -> tuple[int, int]:
    return SEVERITIES.index(finding.severity), remedy_of(finding.action).action.rank


def _stands(finding: Finding) -> bool:
    if finding.code == 154:
        return True
    return remedy_of(finding.action).action.rank >= Action.RESET_GPU.rank
