"""A plan: what will be done, in order, with undo and cost, before anything is done."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from gpuguard.model.codec import Record


class Level(str, Enum):
    """How much a finding weighs: an error refuses the plan."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    OK = "ok"


class Confirm(str, Enum):
    """How a person agrees to a plan."""

    NONE = "none"
    YES_NO = "yes_no"
    TYPE_NAME = "type_name"


@dataclass(frozen=True)
class Finding(Record):
    """One thing seen that helps or hinders, with its remedy."""

    level: Level
    code: str  # stable, kebab-case
    subject: str  # host or job
    text: str
    remedy: Optional[str] = None


@dataclass(frozen=True)
class Step(Record):
    """One step of a plan, in the operator's words."""

    name: str  # the failure point; the same word as in the node's journal
    host: str
    text: str
    undo: Optional[str] = None
    cost: Optional[str] = None


@dataclass(frozen=True)
class Plan(Record):
    """What a command will do; serves --dry-run, the question, the run and the screen."""

    id: str
    verb: str
    jobs: tuple[str, ...]
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...] = ()
    confirm: Confirm = Confirm.NONE
    confirm_name: Optional[str] = None  # what is typed for Confirm.TYPE_NAME
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def refused(self) -> bool:
        """Tell whether a finding forbids the plan."""
        return any(finding.level is Level.ERROR for finding in self.findings)
