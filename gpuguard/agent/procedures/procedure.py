"""What a procedure is made of: steps that know their undo, and the context they share.

The engine (engine.py) writes BEGIN before and DONE after each `do`. On an exception it writes
FAILED and walks back: `undo` of every begun step in reverse, UNDONE for each. If the process dies,
another one does the same from the journal alone; after the commit it goes forward instead.
"""

from pathlib import Path
from typing import Any, Optional

from gpuguard.agent.clock import boot_id
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures.journal import Journal
from gpuguard.agent.procedures.told import wait_told
from gpuguard.agent.processes import alive
from gpuguard.model.jobs import ProcessRef
from gpuguard.model.procedures import EntryState, ProcedureRequest


class Context:
    """What the steps of one procedure share; `facts` is all that survives a crash."""

    def __init__(
        self, request: ProcedureRequest, paths: NodePaths, journal: Journal, folder: Path
    ) -> None:
        self.request = request
        self.params: dict[str, Any] = request.params
        self.paths = paths
        self.journal = journal
        self.folder = folder
        self.step = "start"
        self.result: dict[str, Any] = dict(journal.facts.get("result") or {})

    @property
    def facts(self) -> dict[str, Any]:
        """The merged `data` of all journal entries so far: what undo and later steps rely on."""
        return self.journal.facts

    @property
    def same_boot(self) -> bool:
        """Whether the node has not been rebooted since the procedure began."""
        return bool(self.facts.get("boot_id") == boot_id())

    @property
    def committed(self) -> bool:
        """Whether the way back is closed: a crash now is settled by going forward."""
        return bool(self.facts.get("committed"))

    def record(self, text: str = "", **data: Any) -> None:
        """Write a synced note, merge `data` into facts; call BEFORE acting. Raises OSError."""
        self.journal.append(self.step, EntryState.NOTE, text, data)

    def tell(self, text: str) -> None:
        """Write a note on the way back, where a disk that refuses it must not stop anything."""
        self.journal.append_anyway(self.step, EntryState.NOTE, text)

    def progress(self, text: str, **data: Any) -> None:
        """Write how far the step is; neither synced nor a fact."""
        self.journal.append(self.step, EntryState.PROGRESS, text, data, synced=False)

    def commit(self, text: str = "", **data: Any) -> None:
        """Close the way back in the middle of a step; its `do` is run again after a crash."""
        self.record(text, committed=True, **data)

    def alive(self, ref: Optional[dict[str, Any]]) -> bool:
        """Tell whether a process recorded as ProcessRef.to_dict() in facts still lives.

        A number recorded before a reboot never matches, whoever has it now.
        """
        return bool(ref) and self.same_boot and alive(ProcessRef.from_dict(ref or {}))

    def hold(self, words: tuple[str, ...], seconds: float) -> Optional[tuple[str, dict[str, Any]]]:
        """Wait until told one of `words`; return (word, data), or None after `seconds`."""
        text = "waits for " + " or ".join(words)
        return wait_told(self.folder, words, seconds, lambda data: self.record(text, **data))


class Step:
    """One step; `name` is the journal's word and the failure point."""

    name: str = ""

    def applies(self, ctx: Context) -> bool:
        """Tell whether the step is part of this request."""
        return True

    def do(self, ctx: Context) -> None:
        """Do the step; record what undo needs before acting."""

    def happened(self, ctx: Context) -> bool:
        """Tell after a crash in the middle of `do` whether its effect is there for good."""
        return False

    def undo(self, ctx: Context) -> None:
        """Put back what `do` changed; idempotent, from facts, params and the world alone."""


class Procedure:
    """Steps in order; `commit` names the step after whose DONE recovery goes forward."""

    kind: str = ""
    steps: tuple[Step, ...] = ()
    commit: Optional[str] = None

    def lock(self, request: ProcedureRequest) -> Optional[str]:
        """Return the name of the job whose lock is held, None for no lock."""
        job = request.params.get("job")
        return str(job) if job is not None else None
