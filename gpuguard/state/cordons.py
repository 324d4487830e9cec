"""What this operator remembers of cordons: wishes a host has not heard yet, and what it last said.

The host's own file is the truth where it answers; this stands in where it does not.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuguard.model.cordons import Cordon
from gpuguard.model.errors import GpuguardError
from gpuguard.state.paths import private_folder

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cordons (
    inventory TEXT NOT NULL, host TEXT NOT NULL, ours TEXT, wish TEXT,
    seen TEXT NOT NULL DEFAULT '[]', seen_at TEXT, PRIMARY KEY (inventory, host));
"""
SET, LIFT = "set", "lift"


@dataclass(frozen=True)
class Remembered:
    """One host: our cordon, what the host still has to be told, and what it last said."""

    ours: Cordon | None = None
    wish: str | None = None  # set or lift; None: the host has heard everything
    seen: tuple[Cordon, ...] = ()
    seen_at: str | None = None

    @property
    def standing(self) -> tuple[Cordon, ...]:
        """Return the cordons that hold as far as is known here."""
        others = [item for item in self.seen if self.ours is None or item.id != self.ours.id]
        return (*others, self.ours) if self.ours and self.wish != LIFT else tuple(others)


@dataclass(frozen=True)
class CordonBook:
    """The operator's file of cordons, for the hosts of one inventory."""

    path: Path
    inventory: str

    @classmethod
    def beside(cls, journal: Path, inventory: str) -> "CordonBook":
        """Return the book that lies beside the operator's journal."""
        return cls(journal.with_name("cordons.sqlite3"), inventory)

    def all(self) -> dict[str, Remembered]:
        """Return what is remembered, by host; raise GpuguardError if the file is broken."""
        return {row["host"]: _remembered(row) for row in self._rows("inventory = ?")}

    def get(self, host: str) -> Remembered:
        """Return what is remembered of `host`."""
        rows = self._rows("inventory = ? AND host = ?", host)
        return _remembered(rows[0]) if rows else Remembered()

    def wish(self, host: str, ours: Cordon | None, wish: str | None) -> None:
        """Write our cordon of `host`, and what the host still has to be told."""
        values = (json.dumps(ours.to_dict()) if ours else None, wish)
        with self._open() as connection:
            connection.execute(
                "INSERT INTO cordons (inventory, host, ours, wish) VALUES (?1, ?2, ?3, ?4)"
                " ON CONFLICT (inventory, host) DO UPDATE SET ours = ?3, wish = ?4",
                (self.inventory, host, *values),
            )

    def saw(self, host: str, seen: tuple[Cordon, ...], at: str) -> None:
        """Write what `host` said at the time `at`; nothing is kept of a host without cordons."""
        known = self.get(host)
        if not seen and known.ours is None and not known.seen:
            return
        text = json.dumps([item.to_dict() for item in seen])
        with self._open() as connection:
            connection.execute(
                "INSERT INTO cordons (inventory, host, seen, seen_at) VALUES (?1, ?2, ?3, ?4)"
                " ON CONFLICT (inventory, host) DO UPDATE SET seen = ?3, seen_at = ?4",
                (self.inventory, host, text, at),
            )

    def _rows(self, where: str, *values: str) -> list[sqlite3.Row]:
        if not self.path.exists():
            return []
        with self._open() as connection:
            query = f"SELECT * FROM cordons WHERE {where}"  # noqa: S608 - constants of this class
            return connection.execute(query, (self.inventory, *values)).fetchall()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            private_folder(self.path.parent)
            self.path.touch(mode=0o600, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=15.0)
            try:
                connection.row_factory = sqlite3.Row
                with connection:
                    connection.execute(_SCHEMA)
                    yield connection
            finally:
                connection.close()
        except (sqlite3.Error, OSError, ValueError) as error:
            hint = f"move {self.path} aside: hosts that answer keep their own cordons"
            raise GpuguardError(f"{self.path}: cordons: {error}", hint) from error


def _remembered(row: sqlite3.Row) -> Remembered:
    return Remembered(
        ours=Cordon.from_dict(json.loads(row["ours"])) if row["ours"] else None,
        wish=row["wish"],
        seen=tuple(Cordon.from_dict(item) for item in json.loads(row["seen"])),
        seen_at=row["seen_at"],
    )
