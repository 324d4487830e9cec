"""A procedure's journal: one synced line for each thing begun, done, failed or undone."""

import json
import os
from pathlib import Path
from typing import Any, Optional

from gpuguard.agent.clock import boottime, utc_now
from gpuguard.agent.disk import sync_folder
from gpuguard.model.errors import GpuguardError
from gpuguard.model.procedures import EntryState, JournalEntry

RESERVE_BYTES = 128 * 1024


class Journal:
    """The journal of one procedure; one writer at a time, any number of readers.

    A reserve file beside it is given up when the procedure fails, so that a full disk
    does not keep the undo from being written down.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"
        self._reserve = folder / "reserve"
        self.entries: list[JournalEntry] = []
        self.facts: dict[str, Any] = {}
        self.unwritten: list[JournalEntry] = []
        self._descriptor = -1

    @classmethod
    def create(cls, folder: Path) -> "Journal":
        """Make the journal with its reserve; raises OSError when there is no space for it."""
        journal = cls(folder)
        journal._reserve.write_bytes(b"\0" * RESERVE_BYTES)
        journal._open(os.O_CREAT)
        sync_folder(folder)
        return journal

    @classmethod
    def resume(cls, folder: Path) -> "Journal":
        """Open an existing journal for more entries; a torn last line is cut off."""
        journal = cls(folder)
        journal._open(0)
        whole, length = parse_journal(journal.path)
        os.ftruncate(journal._descriptor, length)
        for entry in whole:
            journal._take(entry)
        return journal

    @classmethod
    def read(cls, folder: Path) -> "Journal":
        """Read a journal that somebody else may be writing; without one it is empty."""
        journal = cls(folder)
        if journal.path.exists():
            for entry in parse_journal(journal.path)[0]:
                journal._take(entry)
        return journal

    def append(
        self,
        step: str,
        state: EntryState,
        text: str = "",
        data: Optional[dict[str, Any]] = None,
        synced: bool = True,
    ) -> JournalEntry:
        """Write one entry, on disk when this returns if `synced`; raises OSError."""
        seq = self.entries[-1].seq + 1 if self.entries else 1
        entry = JournalEntry(seq, utc_now(), boottime(), step, state, text, data or {})
        self._write(entry, synced)
        self._take(entry)
        return entry

    def append_anyway(
        self, step: str, state: EntryState, text: str = "", data: Optional[dict[str, Any]] = None
    ) -> None:
        """Write one entry, or keep it in `unwritten` where the disk refuses it.

        For the way back: undoing matters more than writing it down.
        """
        try:
            self.append(step, state, text, data)
        except OSError as error:
            seq = self.entries[-1].seq + 1 if self.entries else 1
            note = f"{text} (not written: {error})"
            entry = JournalEntry(seq, utc_now(), boottime(), step, state, note, data or {})
            self._take(entry)
            self.unwritten.append(entry)

    def release_reserve(self) -> None:
        """Give up the reserved space, so that the way back can be written on a full disk."""
        self._reserve.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and drop the reserve."""
        self.release_reserve()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def states(self, step: str) -> set[EntryState]:
        """Return what the journal says of `step`, notes and progress left out."""
        marks = (EntryState.BEGIN, EntryState.DONE, EntryState.FAILED, EntryState.UNDONE)
        return {entry.state for entry in self.entries if entry.step == step} & set(marks)

    def _open(self, flags: int) -> None:
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | flags, 0o600)

    def _take(self, entry: JournalEntry) -> None:
        self.entries.append(entry)
        if entry.state is not EntryState.PROGRESS:
            self.facts.update(entry.data)

    def _write(self, entry: JournalEntry, synced: bool) -> None:
        line = json.dumps(entry.to_dict(), ensure_ascii=False).encode() + b"\n"
        before = os.fstat(self._descriptor).st_size
        try:
            _write_all(self._descriptor, line)
            if synced:
                os.fdatasync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise


def parse_journal(path: Path) -> tuple[list[JournalEntry], int]:
    """Return the whole entries of a journal and their length in bytes.

    Raises:
        GpuguardError: a line before the last one cannot be read.
    """
    data = path.read_bytes()
    length = data.rfind(b"\n") + 1
    lines = data[:length].splitlines()
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(JournalEntry.from_dict(json.loads(line)))
        except ValueError as error:
            if number == len(lines):
                return entries, length - len(line) - 1
            raise GpuguardError(
                f"{path}:{number}: the journal cannot be read: {error}",
                "look at the file; the procedure's job must be checked by hand",
            ) from error
    return entries, length


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
