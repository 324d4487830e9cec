"""Remember what an inventory file came to: checking it anew costs each command 100 ms.

What is kept is worth nothing and can be deleted at any time: it is taken only for the very bytes,
user and program that it was made with, and the file is read and checked anew otherwise.
"""

import hashlib
import json
import os
from pathlib import Path

import gpuguard
from gpuguard.inventory.load import load_inventory
from gpuguard.inventory.text import read_text
from gpuguard.inventory.write import write_file
from gpuguard.model import inventory as words
from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import Inventory


def recall_inventory(path: Path, folder: Path) -> Inventory:
    """Return the inventory in the file `path`, from `folder` if it was loaded before unchanged.

    Raises:
        UsageError: as load_inventory does; what is wrong is never remembered.
    """
    place = folder / f"inventory-{_hash(str(path.absolute()))[:16]}.json"
    try:
        key = _key(path)
    except GpuguardError:
        return load_inventory(path)  # it has the better words for it
    known = _read(place, key)
    if known is None:
        known = load_inventory(path)
        _keep(place, key, known)
    return known


def _key(path: Path) -> str:
    """Hash all that the result depends on: the file, whose home `~` is, and our own code."""
    parts = (read_text(path), str(path.absolute()), os.environ.get("HOME", ""), _program())
    return _hash("\0".join((*parts, str(os.geteuid()))))


def _program() -> str:
    """Say which code this is; an edited checkout has the same version but other files."""
    files = (Path(words.__file__), *sorted(Path(__file__).parent.glob("*.py")))
    stats = ((file.name, file.stat()) for file in files)
    return " ".join(
        (gpuguard.__version__, *(f"{name}:{at.st_size}:{at.st_mtime_ns}" for name, at in stats))
    )


def _read(place: Path, key: str) -> Inventory | None:
    """Return what is kept under `key`; None where nothing is, or nothing that can be trusted."""
    try:
        with place.open("rb") as stream:
            found = os.fstat(stream.fileno())
            # It names commands (power, cordon): it must be as much ours as the inventory.
            if found.st_uid != os.geteuid() or found.st_mode & 0o022:
                return None
            kept = json.loads(stream.read())
        return Inventory.from_dict(kept["inventory"]) if kept["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(place: Path, key: str, inventory: Inventory) -> None:
    try:
        write_file(place, json.dumps({"key": key, "inventory": inventory.to_dict()}), force=True)
    except GpuguardError:
        return  # a full or read-only disk costs the next command 100 ms, nothing else


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
