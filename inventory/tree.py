"""YAML as plain data in which every scalar is the text its author typed, with positions.

`NO`, `0100`, `22:22` and dates stay text; only an unquoted null becomes None. The schema,
which knows what each key means, turns text into numbers.
"""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from gpuguard.inventory.problems import Problem, refuse

Path = tuple[str | int, ...]
Mark = tuple[int, int]  # line and column, from 1

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "merge", "map", "seq", "value")
)
_MAX_DEPTH = 32
_MAX_COPIES = 200_000  # nodes met again through aliases: stops "billion laughs" files


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  PyYAML's own attribute


@dataclass
class Tree:
    """The data of one file, where each part stands, and what is wrong with its form."""

    file: str
    data: Any = None
    values: dict[Path, Mark] = field(default_factory=dict)
    keys: dict[Path, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: Path, reason: str, at_key: bool = False) -> None:
        """Add a problem at the value (or the key) of `path`, or at the nearest part above."""
        line, column = self._mark(path, at_key)
        key = ".".join(str(part) for part in path)
        self.problems.append(Problem(line, column, key, reason))

    def _mark(self, path: Path, at_key: bool) -> Mark:
        first, second = (self.keys, self.values) if at_key else (self.values, self.keys)
        for end in range(len(path), -1, -1):
            mark = first.get(path[:end]) or second.get(path[:end])
            if mark:
                return mark
        return (0, 0)


def parse(text: str, file: str, foreign_tags: bool = False) -> Tree:
    """Return the tree of `text`; `foreign_tags` lets ``!tag`` values pass, as None.

    Raises:
        UsageError: the text is not YAML at all; lesser faults are left in `problems`.
    """
    try:
        node = yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        _refuse_syntax(text, file, error)
    except RecursionError:
        refuse(file, [Problem(0, 0, "", "nested too deeply")])
    tree = Tree(file)
    if node is not None:
        tree.data = _Builder(tree, foreign_tags).build(node, ())
    return tree


class _Builder:
    def __init__(self, tree: Tree, foreign_tags: bool) -> None:
        self.tree = tree
        self.foreign_tags = foreign_tags
        self.open: set[int] = set()
        self.seen: set[int] = set()
        self.copies = 0

    def build(self, node: Any, path: Path) -> Any:
        self.tree.values.setdefault(path, _mark(node))
        if node.tag not in _TAGS:
            if not self.foreign_tags:
                self.tree.problem(path, f"the tag {node.tag} is not understood; remove it")
            return None
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        self._guard(node, path)
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, (*path, at)) for at, item in enumerate(node.value)]
            return self._mapping(node, path)
        finally:
            self.open.discard(id(node))

    def _guard(self, node: Any, path: Path) -> None:
        reason = None
        if id(node) in self.open:
            reason = "an alias that contains itself"
        elif len(path) > _MAX_DEPTH:
            reason = f"nested deeper than {_MAX_DEPTH} levels"
        elif id(node) in self.seen:
            self.copies += len(node.value) + 1
            if self.copies > _MAX_COPIES:
                reason = f"aliases repeat more than {_MAX_COPIES} values"
        self.seen.add(id(node))
        if reason:
            self.tree.problem(path, reason)
            refuse(self.tree.file, self.tree.problems)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: list[Any] = []
        for key, value in node.value:
            name = self._key(key, path)
            if name is None:
                continue
            if name == "<<" and not key.style:
                merged.append(value)
            elif name in result:
                line = self.tree.keys[(*path, name)][0]
                self._complain(key, (*path, name), f"written twice; first on line {line}")
            else:
                self.tree.keys[(*path, name)] = _mark(key)
                result[name] = self.build(value, (*path, name))
        for value in merged:
            self._merge(value, path, result)
        return result

    def _key(self, key: Any, path: Path) -> str | None:
        if isinstance(key, yaml.ScalarNode):
            return str(key.value)
        kind = "a list" if isinstance(key, yaml.SequenceNode) else "a mapping"
        self._complain(key, path, f'{kind} cannot be a key; quote it, as in "gpu[01-04]"')
        return None

    def _merge(self, node: Any, path: Path, result: dict[str, Any]) -> None:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for part in parts:
            if not isinstance(part, yaml.MappingNode):
                self._complain(part, path, "<< takes a mapping or a list of mappings")
                continue
            self._guard(part, path)
            self.open.add(id(part))
            for name, value in self._mapping_quietly(part, path, result).items():
                result.setdefault(name, value)
            self.open.discard(id(part))

    def _mapping_quietly(self, part: Any, path: Path, own: dict[str, Any]) -> dict[str, Any]:
        """Build a merged mapping; keys that `own` overrides keep their own positions."""
        kept = {(*path, name): self.tree.keys.get((*path, name)) for name in own}
        built = self._mapping(part, path)
        self.tree.keys.update({key: mark for key, mark in kept.items() if mark})
        return built

    def _complain(self, node: Any, path: Path, reason: str) -> None:
        line, column = _mark(node)
        key = ".".join(str(part) for part in path)
        self.tree.problems.append(Problem(line, column, key, reason))


def _scalar(node: Any) -> str | None:
    return None if not node.style and node.value in _NULLS else str(node.value)


def _mark(node: Any) -> Mark:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _refuse_syntax(text: str, file: str, error: yaml.YAMLError) -> NoReturn:
    line, column = _place(text, error)
    reason = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    context = getattr(error, "context", None)
    if context:
        reason = f"{reason} ({context})"
    hint = None
    rows = text.splitlines()
    row = rows[line - 1] if 0 < line <= len(rows) else ""
    if "\t" in row[: len(row) - len(row.lstrip())]:
        reason = "a tab stands where YAML wants spaces"
        hint = f"expand -t2 {file}"
    elif "[" in row:
        hint = 'quote host ranges: "gpu[001-032]"'
    refuse(file, [Problem(line, column, "", reason)], hint)


def _place(text: str, error: Any) -> Mark:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return mark.line + 1, mark.column + 1
    position = getattr(error, "position", None)
    if not isinstance(position, int):
        return 0, 0
    # The C reader counts bytes, the Python one characters.
    before = (
        text.encode()[:position].decode(errors="ignore")
        if yaml.__with_libyaml__
        else text[:position]
    )
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
