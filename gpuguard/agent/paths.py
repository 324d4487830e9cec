"""Where the agent keeps its state on a node (docs/protocol.md, "A node's folders")."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from gpuguard.model.errors import UsageError

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
PROCEDURE_ID = re.compile(r"[a-z0-9-]{1,64}\Z")


def _default_root() -> Path:
    return Path(os.environ.get("GPUGUARD_NODE_ROOT") or "/var/lib/gpuguard")


@dataclass(frozen=True)
class NodePaths:
    """The folders below the node's root; names are checked, so no name can leave them."""

    root: Path = field(default_factory=_default_root)

    @property
    def jobs(self) -> Path:
        """The folder of all jobs."""
        return self.root / "jobs"

    @property
    def procedures(self) -> Path:
        """The folder of all procedures."""
        return self.root / "procedures"

    @property
    def stage(self) -> Path:
        """The default place where a checkpoint is made."""
        return self.root / "stage"

    @property
    def keys(self) -> Path:
        """The folder of the node's signing key."""
        return self.root / "keys"

    @property
    def stores(self) -> Path:
        """The file that says which store was seen under which path."""
        return self.root / "stores.json"

    @property
    def agent(self) -> Path:
        """The folder of unpacked agents."""
        return self.root / "agent"

    def job(self, name: str) -> Path:
        """Return the folder of job `name`; raises UsageError for a name that is none."""
        if not JOB_NAME.match(name):
            raise UsageError(
                f"{name!r} is not a job name",
                "use letters, digits, '_', '.', '-'; at most 64; a letter or digit first",
            )
        return self.jobs / name

    def procedure(self, procedure_id: str) -> Path:
        """Return the folder of a procedure; raises UsageError for an id that is none."""
        if not PROCEDURE_ID.match(procedure_id):
            raise UsageError(f"{procedure_id!r} is not a procedure id (a-z, 0-9, '-', at most 64)")
        return self.procedures / procedure_id

    def prepare(self) -> None:
        """Create the folders, readable by their owner alone."""
        for folder in (self.root, self.jobs, self.procedures, self.stage, self.keys, self.agent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
