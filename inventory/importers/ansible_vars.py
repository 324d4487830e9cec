"""Ansible's connection variables in gpuguard's words."""

import re
import shlex
from collections.abc import Callable
from typing import Any

from gpuguard.inventory import scalars
from gpuguard.inventory.importers.draft import Settings
from gpuguard.inventory.tree import Path, Tree

_NAME = re.compile(r"\{\{\s*inventory_hostname\s*\}\}")
_ARGUMENTS = ("ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_ssh_args")
_JUMP = re.compile(r"(?i:ProxyJump)\s*[= ]\s*(\S+)")


def _port(value: Any) -> int:
    port = scalars.integer(value)
    if not 0 < port < 65536:
        raise ValueError(f"{port} is no port")
    return port


def _keys(value: Any) -> list[str]:
    return [scalars.text(value)]


_TAKEN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "ansible_ssh_host": ("address", scalars.address),
    "ansible_host": ("address", scalars.address),
    "ansible_ssh_port": ("port", _port),
    "ansible_port": ("port", _port),
    "ansible_ssh_user": ("user", scalars.word),
    "ansible_user": ("user", scalars.word),
    "ansible_private_key_file": ("identity_files", _keys),
    "ansible_ssh_private_key_file": ("identity_files", _keys),
}


class Variables:
    """Take over what gpuguard has a word for, and remember what it has none for."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._unread: set[str] = set()
        self._templates: set[str] = set()

    def read(self, said: dict[str, Any], path: Path) -> Settings:
        """Return the settings in `said`; wrong values are added to the tree's problems."""
        settings: Settings = {}
        for name, value in said.items():
            try:
                settings.update(self._one(name, value))
            except ValueError as error:
                self._tree.problem((*path, name), str(error))
        return settings

    def _one(self, name: str, value: Any) -> Settings:
        if isinstance(value, str):
            value = _NAME.sub("{name}", value)
            if "{{" in value:
                self._templates.add(name)
                return {}
        if value is None:
            self._unread.add(name)
            return {}
        if name in _TAKEN:
            key, check = _TAKEN[name]
            return {key: check(value)}
        if name == "ansible_connection":
            return {"transport": "local"} if value == "local" else {}
        if name in _ARGUMENTS:
            return self._arguments(name, scalars.text(value))
        self._unread.add(name)
        return {}

    def _arguments(self, name: str, value: str) -> Settings:
        words = shlex.split(value)
        pairs = list(zip(words, [*words[1:], ""], strict=True))
        for word, following in pairs:
            if word == "-J":
                return {"proxy_jump": scalars.word(following)}
            found = _JUMP.fullmatch(following if word == "-o" else word.removeprefix("-o"))
            if found:
                return {"proxy_jump": scalars.word(found[1])}
        self._unread.add(name)
        return {}

    def notes(self) -> list[str]:
        """Return one line for each kind of thing that was left out."""
        notes = []
        if self._templates:
            notes.append(f"left out: templates in {', '.join(sorted(self._templates))}")
        if self._unread:
            shown = sorted(self._unread)[:12]
            more = f" and {len(self._unread) - 12} more" if len(self._unread) > 12 else ""
            notes.append(f"left out: variables {', '.join(shown)}{more}")
        return notes
