"""The operator's journal: what was asked from here, step by step, and how it ended.

It is an index. Deleting it loses history and nothing else: nodes and stores describe themselves.
"""

import json
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.model.operations import Operation, OperationState, OperationStep
from gpuguard.model.plans import Plan
from gpuguard.state.clock import Clock, stamp
from gpuguard.state.paths import private_folder
from gpuguard.state.process import start_time

VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS operations (
    id TEXT PRIMARY KEY, verb TEXT NOT NULL, jobs TEXT NOT NULL, state TEXT NOT NULL,
    started_at TEXT NOT NULL, ended_at TEXT, asked_by TEXT NOT NULL, machine TEXT NOT NULL,
    pid INTEGER NOT NULL, pid_start INTEGER NOT NULL, exit_code INTEGER,
    error TEXT, result TEXT, plan TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS steps (
    operation TEXT NOT NULL REFERENCES operations(id) ON DELETE CASCADE, seq INTEGER NOT NULL,
    at TEXT NOT NULL, host TEXT NOT NULL, step TEXT NOT NULL, state TEXT NOT NULL,
    text TEXT NOT NULL, job TEXT, procedure TEXT, seconds REAL, PRIMARY KEY (operation, seq));
CREATE INDEX IF NOT EXISTS by_time ON operations (started_at);
"""


class Operations:
    """The journal's file; safe to use from several threads and several processes."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.clock = clock
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def begin(self, plan: Plan, asked_by: str) -> "OperationLog":
        """Write that `plan` starts now, asked for by `asked_by` (``user@machine``).

        Raises:
            GpuguardError: the journal cannot be written.
        """
        machine = socket.gethostname()
        values = (
            plan.id,
            plan.verb,
            json.dumps(plan.jobs),
            OperationState.RUNNING.value,
            stamp(self.clock.now()),
            asked_by,
            machine,
            os.getpid(),
            start_time(os.getpid()) or 0,
            json.dumps(plan.to_dict()),
        )
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO operations (id, verb, jobs, state, started_at, asked_by, machine,"
                " pid, pid_start, plan) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
        return OperationLog(self, plan.id)

    def resume(self, operation: str) -> "OperationLog":
        """Return the log of an operation that was begun earlier."""
        return OperationLog(self, operation)

    def list(self, limit: int = 50) -> list[Operation]:
        """Return the newest `limit` operations, newest first, without their steps."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT * FROM operations ORDER BY started_at DESC, rowid DESC LIMIT ?", (limit,)
            ).fetchall()
        return [_operation(row) for row in rows]

    def show(self, operation: str) -> Operation:
        """Return one operation with its steps.

        An unambiguous beginning of its id is enough; the id of one of its procedures, which hosts
        name in their hints, finds it too.

        Raises:
            UsageError: there is none of that id, or more than one.
        """
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT * FROM operations WHERE substr(id, 1, length(?1)) = ?1"
                " OR substr(?1, 1, length(id) + 1) = id || '-' LIMIT 2",
                (operation,),
            ).fetchall()
            if len(rows) != 1:
                reason = "is the start of several ids" if rows else "is not in the journal"
                raise UsageError(f"operation {operation!r} {reason}", "gpuguard ops list")
            steps = connection.execute(
                "SELECT * FROM steps WHERE operation = ? ORDER BY seq", (rows[0]["id"],)
            ).fetchall()
        return _operation(rows[0], tuple(_step(row) for row in steps))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._open()
            except (sqlite3.Error, OSError) as error:
                hint = f"move {self.path} aside: it is only a history" if _broken(error) else None
                raise GpuguardError(f"{self.path}: the journal: {error}", hint) from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            private_folder(self.path.parent)
            self._connection = _connect(self.path)
        return self._connection


class OperationLog:
    """What one running operation writes into the journal."""

    def __init__(self, operations: Operations, operation: str) -> None:
        self.id = operation
        self.ended = False
        self._operations = operations

    def step(self, step: OperationStep) -> None:
        """Append `step`, synced; its number and time are given here."""
        values = (step.host, step.step, step.state, step.text, step.job)
        values += (step.procedure, step.seconds)  # type: ignore[assignment]
        now = stamp(self._operations.clock.now())
        with self._operations._writing() as connection:
            connection.execute(
                "INSERT INTO steps (operation, seq, at, host, step, state, text, job, procedure,"
                " seconds) VALUES (?, (SELECT COALESCE(MAX(seq), 0) + 1 FROM steps"
                " WHERE operation = ?), ?, ?, ?, ?, ?, ?, ?, ?)",
                (self.id, self.id, now, *values),
            )

    def end(
        self,
        state: OperationState,
        exit_code: int,
        error: GpuguardError | None = None,
        result: dict[str, Any] | None = None,
    ) -> None:
        """Write how the operation ended."""
        self.ended = True
        with self._operations._writing() as connection:
            connection.execute(
                "UPDATE operations SET state = ?, exit_code = ?, ended_at = ?, error = ?,"
                " result = ? WHERE id = ?",
                (
                    state.value,
                    exit_code,
                    stamp(self._operations.clock.now()),
                    json.dumps(error.to_dict()) if error else None,
                    json.dumps(result) if result is not None else None,
                    self.id,
                ),
            )


def _connect(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600, exist_ok=True)
    connection = sqlite3.connect(path, timeout=15.0, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    _use_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found > VERSION:
        connection.close()
        raise UsageError(
            f"{path}: the journal has format {found}, this gpuguard knows {VERSION}",
            "update gpuguard here, or set XDG_STATE_HOME to another folder",
        )
    if found < VERSION:
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite does not wait by itself when two do it at once."""
    for attempt in range(100):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or attempt == 99:
                raise
            time.sleep(0.05)
        else:
            return


def _broken(error: Exception) -> bool:
    return isinstance(error, sqlite3.DatabaseError) and "not a database" in str(error)


def _operation(row: sqlite3.Row, steps: tuple[OperationStep, ...] = ()) -> Operation:
    return Operation(
        id=row["id"],
        verb=row["verb"],
        jobs=tuple(json.loads(row["jobs"])),
        state=_state(row),
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        asked_by=row["asked_by"],
        pid=row["pid"],
        exit_code=row["exit_code"],
        error=json.loads(row["error"]) if row["error"] else None,
        result=json.loads(row["result"]) if row["result"] else None,
        plan=json.loads(row["plan"]),
        steps=steps,
    )


def _state(row: sqlite3.Row) -> OperationState:
    """Return the state; an operation whose process is gone from this machine is abandoned."""
    state = OperationState(row["state"])
    here = row["machine"] == socket.gethostname()
    if state is OperationState.RUNNING and here and start_time(row["pid"]) != row["pid_start"]:
        return OperationState.ABANDONED
    return state


def _step(row: sqlite3.Row) -> OperationStep:
    values = {key: row[key] for key in row.keys() if key != "operation"}  # noqa: SIM118
    return OperationStep(**values)
