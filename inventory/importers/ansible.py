"""An Ansible inventory in YAML: groups, children, hosts with ranges, connection variables."""

import re
from typing import Any

from gpuguard.inventory.importers.ansible_vars import Variables
from gpuguard.inventory.importers.draft import Draft, Settings
from gpuguard.inventory.problems import refuse
from gpuguard.inventory.ranges import expand, fold
from gpuguard.inventory.scalars import HOST_NAME, NAME, kind_of
from gpuguard.inventory.tree import Path, Tree, parse
from gpuguard.model.errors import UsageError

_PORT = re.compile(r"(.*[^:]):(\d+)")
_MAX_DEPTH = 64
_KEYS = ("hosts", "children", "vars")


def read_ansible(text: str, source: str) -> Draft:
    """Return the hosts and groups of an Ansible inventory.

    Raises:
        UsageError: the text is no such inventory; the message holds every fault with its place.
    """
    if re.search(r"(?m)^\[[^\]]+\]\s*$", text):
        raise UsageError(
            f"{source}: looks like Ansible's INI form",
            f"ansible-inventory -i {source} --list --yaml > hosts.yml, and import that",
        )
    tree = parse(text, source, foreign_tags=True)
    found = _Groups(tree)
    if not isinstance(tree.data, dict):
        tree.problem((), f"expected a mapping of groups, found {kind_of(tree.data)}")
    else:
        found.read(tree.data, (), None)
    if tree.problems:
        refuse(source, tree.problems)
    draft = found.draft(source)
    if not draft.hosts:
        raise UsageError(f"{source}: lists no host")
    return draft


class _Groups:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._variables = Variables(tree)
        self._hosts: dict[str, Settings] = {}
        self._members: dict[str, list[str]] = {}
        self._children: dict[str, list[str]] = {}
        self._settings: dict[str, Settings] = {}
        self._notes: list[str] = []

    def read(self, groups: dict[str, Any], path: Path, parent: str | None) -> None:
        for name, body in groups.items():
            here = (*path, name)
            self._members.setdefault(name, [])
            self._children.setdefault(name, [])
            self._settings.setdefault(name, {})
            if parent is not None:
                self._children[parent].append(name)
            if body is not None and self._mapping(body, here):
                self._group(name, body, here)

    def _group(self, name: str, body: dict[str, Any], path: Path) -> None:
        for key in body.keys() - set(_KEYS):
            reason = f"Ansible knows {', '.join(_KEYS)} here"
            self._tree.problem((*path, key), reason, at_key=True)
        for host, said in self._part(body, "hosts", path).items():
            self._host(name, host, said, (*path, "hosts", host))
        said = self._variables.read(self._part(body, "vars", path), (*path, "vars"))
        if "address" in said and "{name}" not in said["address"]:
            self._notes.append(f"left out: ansible_host of the whole group {name}")
            del said["address"]
        self._settings[name].update(said)
        self.read(self._part(body, "children", path), (*path, "children"), name)

    def _host(self, group: str, text: str, said: Any, path: Path) -> None:
        found = _PORT.fullmatch(text)
        pattern, port = (found[1], found[2]) if found else (text, None)
        settings: Settings = {"port": int(port)} if port else {}
        if said is not None and self._mapping(said, path):
            settings.update(self._variables.read(said, path))
        try:
            names = expand(pattern)
        except UsageError as error:
            self._tree.problem(path, error.message, at_key=True)
            return
        for name in names:
            if not HOST_NAME.fullmatch(name):
                self._notes.append(f"left out: host {name} (gpuguard needs letters, digits, . _ -)")
                continue
            self._hosts.setdefault(name, {}).update(settings)
            self._members[group].append(name)

    def _part(self, body: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
        part = body.get(key)
        if part is None or not self._mapping(part, (*path, key)):
            return {}
        return dict(part)

    def _mapping(self, value: Any, path: Path) -> bool:
        if not isinstance(value, dict):
            self._tree.problem(path, f"expected a mapping, found {kind_of(value)}")
        return isinstance(value, dict)

    def draft(self, source: str) -> Draft:
        depths: dict[str, int] = {}
        for name in self._children:
            self._sink(name, 0, depths, ())
        draft = Draft(source, defaults=self._settings.get("all", {}), hosts=self._hosts)
        # A later group wins here, a deeper one in Ansible: so write the deeper ones later.
        for name in sorted(depths, key=lambda group: (depths[group], group)):
            if name not in ("all", "ungrouped") and self._populated(name):
                draft.groups[self._renamed(name)] = self._written(name)
        draft.notes = [*self._notes, *self._variables.notes()]
        return draft

    def _sink(self, name: str, depth: int, depths: dict[str, int], above: tuple[str, ...]) -> None:
        if name in above:
            circle = " -> ".join([*above[above.index(name) :], name])
            raise UsageError(f"{self._tree.file}: groups contain each other: {circle}")
        if depth > _MAX_DEPTH:
            raise UsageError(f"{self._tree.file}: groups nest deeper than {_MAX_DEPTH} levels")
        if depth <= depths.get(name, -1):
            return
        depths[name] = depth
        for child in self._children[name]:
            self._sink(child, depth + 1, depths, (*above, name))

    def _populated(self, name: str) -> bool:
        return bool(self._members[name]) or any(map(self._populated, self._children[name]))

    def _written(self, name: str) -> Settings:
        hosts = [fold(self._members[name])] if self._members[name] else []
        children = list(dict.fromkeys(self._children[name]))
        hosts += [f"@{self._renamed(child)}" for child in children if self._populated(child)]
        return {"hosts": hosts, **self._settings[name]}

    def _renamed(self, name: str) -> str:
        if NAME.fullmatch(name):
            return name
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip("._-")[:64] or "group"
        note = f"group {name} is called {plain} here"
        if note not in self._notes:
            self._notes.append(note)
        return plain
