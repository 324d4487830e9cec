"""Import an inventory of one of the known kinds, and prove that the result can be read."""

from pathlib import Path

from gpuguard.inventory.importers.ansible import read_ansible
from gpuguard.inventory.importers.draft import render
from gpuguard.inventory.importers.hostlist import read_hostlist
from gpuguard.inventory.importers.kinds import Kind
from gpuguard.inventory.importers.ssh_config import read_ssh_config
from gpuguard.inventory.load import parse_inventory
from gpuguard.inventory.text import read_text


def import_inventory(kind: Kind, path: Path, home: Path, target: Path) -> str:
    """Return the text of an inventory made from the file `path`.

    `home` is where ``.ssh`` lies; `target` names the result in messages.

    Raises:
        UsageError: the source cannot be read or is wrong, or makes no valid inventory.
    """
    if kind is Kind.SSH_CONFIG:
        draft = read_ssh_config(path, home)
    elif kind is Kind.ANSIBLE:
        draft = read_ansible(read_text(path), str(path))
    else:
        draft = read_hostlist(read_text(path), str(path))
    text = render(draft)
    parse_inventory(text, target)
    return text
