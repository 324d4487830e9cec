"""Open what a command works with: the inventory, the sessions, the journal."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuguard.commands.options import settings
from gpuguard.commands.progress import Reporter
from gpuguard.model.inventory import Inventory
from gpuguard.running.desk import Desk
from gpuguard.state.clock import SystemClock
from gpuguard.state.cordons import CordonBook
from gpuguard.state.operations import Operations
from gpuguard.state.paths import find_paths


def open_inventory() -> Inventory:
    """Return the inventory that the options or the environment name; raise UsageError."""
    from gpuguard.inventory.locate import find_inventory
    from gpuguard.inventory.remembered import recall_inventory

    path = find_inventory(settings().inventory, os.environ)
    return recall_inventory(path, find_paths(os.environ).cache)


def open_operations() -> Operations:
    """Return the operator's journal of this user."""
    return Operations(find_paths(os.environ).operations, SystemClock())


def open_cordons(inventory: Inventory) -> CordonBook:
    """Return what this user remembers of the cordons of the inventory's hosts."""
    return CordonBook.beside(find_paths(os.environ).operations, inventory.path)


def chosen_hosts(inventory: Inventory, pattern: str | None) -> list[str] | None:
    """Return the hosts that `pattern` names, None for all; raise UsageError for unknown ones."""
    if pattern is None:
        return None
    from gpuguard.inventory.select import select_hosts

    return [host.name for host in select_hosts(inventory, [pattern])]


@contextmanager
def open_desk() -> Iterator[Desk]:
    """Give out a desk; connections and live progress end with the block."""
    from gpuguard.remote.pool import Pool

    inventory = open_inventory()
    operations = open_operations()
    reporter = Reporter()
    try:
        with Pool(Path(inventory.path).parent, settings().fanout) as pool, reporter:
            yield Desk(inventory, pool, operations, on_progress=reporter.show)
    finally:
        operations.close()
