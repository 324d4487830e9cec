"""A whole log's findings as one document, bounded in size."""

from collections.abc import Iterable
from typing import Any, Optional

from gpuguard.health.events import Context, Event, Incident
from gpuguard.health.floods import counted
from gpuguard.health.kernel_log import KernelLog, Tellers

SCHEMA = "gpuguard.kernel_lines/1"
_MOST = 10_000  # of each kind are kept; what is beyond is counted


class Report:
    """Read a log and keep what was found."""

    def __init__(self, driver: Optional[str] = None) -> None:
        self.events: list[Event] = []
        self.contexts: list[Context] = []
        self.incidents: list[Incident] = []
        self.left_out = {"events": 0, "context": 0, "incidents": 0}
        self.log = KernelLog(
            Tellers(self._event, self._context, self._incident),
            driver,
        )

    def _event(self, event: Event) -> None:
        self._keep(self.events, event, "events")

    def _context(self, context: Context) -> None:
        self._keep(self.contexts, context, "context")

    def _incident(self, incident: Incident) -> None:
        self._keep(self.incidents, incident, "incidents")

    def _keep(self, found: list[Any], one: Any, name: str) -> None:
        if len(found) < _MOST:
            found.append(one)
        else:
            self.left_out[name] += 1

    def to_dict(self) -> dict[str, Any]:
        """Return the findings in the words of the schema, each kind in the log's order."""
        counts = self.log.counts
        told = counts.events - sum(event.prefix.repeat for event in self.events)
        return {
            "events": [event.to_dict() for event in sorted(self.events, key=_line)],
            "events_summary": counted(counts.summary),
            "context": [context.to_dict() for context in sorted(self.contexts, key=_line)],
            "incidents": [one.to_dict() for one in sorted(self.incidents, key=_first)],
            "counts": {
                "lines": counts.lines,
                "events": counts.events,
                "rejects": counts.rejects,
                "untrusted": self.log.untrusted,
                "events_counted_only": max(told, 0),
                "left_out": dict(self.left_out),
            },
            "driver": self.log.driver,
        }


def read(data: Iterable[bytes], driver: Optional[str] = None) -> Report:
    """Return the report of a log given as pieces of bytes, cut anywhere."""
    report = Report(driver)
    for piece in data:
        report.log.feed(piece)
    report.log.close()
    return report


def _line(found: Any) -> int:
    return int(found.line)


def _first(incident: Incident) -> tuple[int, str]:
    return incident.first_line, incident.pci
