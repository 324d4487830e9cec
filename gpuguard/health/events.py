"""What a parse finds: fault events, other lines worth knowing, and incidents of one cause."""

from dataclasses import dataclass, field
from typing import Any, Optional

from gpuguard.health.stamps import NO_PREFIX, Prefix
from gpuguard.model.codec import plain


@dataclass
class Event:
    """One Xid, or one SXid with all the lines that tell of it. `line` counts from 0."""

    line: int
    kind: str  # xid or sxid
    pci: str
    code: int
    text: str
    prefix: Prefix = NO_PREFIX
    pid: Optional[int] = None
    name: Optional[str] = None
    uuid: Optional[str] = None
    gi: Optional[int] = None
    ci: Optional[int] = None
    detail: dict[str, Any] = field(default_factory=dict)
    truncated: bool = False
    switch: Optional[int] = None
    fatal: Optional[bool] = None
    link: Optional[int] = None
    lines: list[int] = field(default_factory=list)

    @property
    def trusted(self) -> Optional[bool]:
        """Whether the kernel wrote it; None where the log does not show it."""
        return self.prefix.trusted

    def to_dict(self) -> dict[str, Any]:
        """Return the event in the words of the schema, null for what the line does not say."""
        common = {
            "line": self.line,
            "kind": self.kind,
            "host": self.prefix.host,
            "pci": self.pci,
            "code": self.code,
            "text": self.text,
            "time": {"form": self.prefix.form, "value": self.prefix.stamp},
            "trusted": self.trusted,
            "relayed": self.prefix.relayed,
            "count": self.prefix.repeat,
            "kmsg": self.prefix.kmsg,
        }
        return {**common, **(self._xid() if self.kind == "xid" else self._sxid())}

    def _xid(self) -> dict[str, Any]:
        return {
            "pid": self.pid,
            "name": self.name,
            "uuid": self.uuid,
            "gi": self.gi,
            "ci": self.ci,
            "detail": plain(self.detail),
            "tracepoint": self.prefix.tracepoint,
            "truncated": self.truncated,
        }

    def _sxid(self) -> dict[str, Any]:
        return {
            "switch": self.switch,
            "fatal": self.fatal,
            "link": self.link,
            "detail": plain(self.detail),
            "same_error_lines": sorted(self.lines),
        }


@dataclass
class Context:
    """A line, or several of one error, that is no Xid and still tells something."""

    line: int
    kind: str
    prefix: Prefix = NO_PREFIX
    pci: Optional[str] = None
    fields: dict[str, Any] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the context in the words of the schema."""
        found: dict[str, Any] = {"line": self.line, "kind": self.kind, "host": self.prefix.host}
        if self.pci:
            found["pci"] = self.pci
        found.update(plain(self.fields))
        if len(self.lines) > 1:
            found["same_error_lines"] = sorted(self.lines)
        return found


@dataclass
class Incident:
    """The faults of one cause on one device, and what they call for."""

    pci: str
    kind: str  # xid, sxid or gpu_lost
    primary: Any  # a code, or gpu_lost
    scope: str
    severity: str
    action: str  # the catalog's word
    remedy: str  # an Action
    why: str
    person: bool = False
    host: Optional[str] = None
    uuid: Optional[str] = None
    gi: Optional[int] = None
    seen: bool = True
    known: bool = True
    codes: list[int] = field(default_factory=list)
    count: int = 0
    undercount: bool = False
    investigate: Optional[str] = None
    followup: Optional[str] = None
    cleared: bool = False
    guess: bool = False
    equivalent_xid: Optional[int] = None
    live_checkpoint: str = "unknown"
    pids: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    first_line: int = 0
    last_line: int = 0
    first_time: Any = None
    last_time: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the incident in the words of the schema."""
        return {name: plain(value) for name, value in vars(self).items()}
