"""Read an inventory file: everything that is wrong with it is said at once, with its place."""

from dataclasses import dataclass
from pathlib import Path

from gpuguard.inventory.problems import refuse
from gpuguard.inventory.text import read_text
from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import Inventory
from gpuguard.model.plans import Finding


@dataclass(frozen=True)
class Loaded:
    """An inventory and what is worth a second look in it."""

    inventory: Inventory
    findings: tuple[Finding, ...]


def load_inventory(path: Path) -> Inventory:
    """Return the inventory in the file `path`.

    Raises:
        UsageError: the file cannot be read or is wrong; the message holds every fault as
            ``file:line:column: key: reason``, `details["problems"]` the same as a list.
    """
    return read_inventory(path).inventory


def read_inventory(path: Path) -> Loaded:
    """Return the inventory in `path` with its findings; raises as load_inventory does."""
    from gpuguard.inventory.findings import find

    text = read_text(path, "make one: gpuguard inventory init")
    try:
        inventory = parse_inventory(text, path)
    except UsageError as error:
        error.hint = error.hint or f"correct it, then: gpuguard inventory check {path}"
        raise
    return Loaded(inventory, find(inventory))


def parse_inventory(text: str, path: Path) -> Inventory:
    """Return the inventory that `text`, found at `path`, describes; raises as load_inventory."""
    # pydantic takes 100 ms to import: only a command that reads an inventory pays for it.
    from gpuguard.inventory.check import check
    from gpuguard.inventory.resolve import resolve
    from gpuguard.inventory.tree import parse

    tree = parse(text, str(path))
    if tree.data is None and not tree.problems:
        raise UsageError(f"{path}: holds no inventory", "make one: gpuguard inventory init")
    document = check(tree)
    inventory = resolve(document, tree, path.absolute()) if document else None
    if tree.problems or inventory is None:
        refuse(str(path), tree.problems)
    return inventory
