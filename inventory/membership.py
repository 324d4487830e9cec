"""Who is in which group: host ranges, other groups, and hosts left out."""

from typing import Any

from gpuguard.inventory.ranges import expand, fold, split_terms
from gpuguard.inventory.tree import Tree
from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import nearest

_MAX_DEPTH = 64


class Members:
    """Expand the `hosts:` of every group against the hosts that exist."""

    def __init__(self, groups: dict[str, Any], hosts: dict[str, Any], tree: Tree) -> None:
        self._groups = groups
        self._hosts = hosts
        self._tree = tree
        self._done: dict[str, set[str]] = {}
        self._open: list[str] = []

    def resolve(self) -> dict[str, tuple[str, ...]]:
        """Return each group's hosts in the order of the file; faults go to the tree."""
        order = {name: at for at, name in enumerate(self._hosts)}
        return {
            group: tuple(sorted(self._members(group), key=order.__getitem__))
            for group in self._groups
        }

    def _members(self, group: str) -> set[str]:
        if group in self._done:
            return self._done[group]
        self._open.append(group)
        taken: set[str] = set()
        left_out: set[str] = set()
        for text in self._groups[group].hosts:
            for term in split_terms(text):
                if term.startswith("!"):
                    left_out |= self._term(group, term[1:])
                else:
                    taken |= self._term(group, term)
        self._open.pop()
        self._done[group] = taken - left_out
        return self._done[group]

    def _term(self, group: str, term: str) -> set[str]:
        if term.startswith("@"):
            return self._other(group, term[1:])
        try:
            names = set(expand(term))
        except UsageError as error:
            self._complain(group, f"{error.message}" + (f"; {error.hint}" if error.hint else ""))
            return set()
        missing = names - self._hosts.keys()
        if missing:
            close = nearest(min(missing), self._hosts)
            advice = f" (did you mean {close}?)" if close else ""
            self._complain(group, f"{fold(missing)} not listed under hosts{advice}")
        return names - missing

    def _other(self, group: str, name: str) -> set[str]:
        if name in self._open:
            circle = " -> ".join([*self._open[self._open.index(name) :], name])
            self._complain(group, f"groups contain each other: {circle}")
            return set()
        if len(self._open) >= _MAX_DEPTH:
            self._complain(group, f"groups nest deeper than {_MAX_DEPTH} levels")
            return set()
        if name not in self._groups:
            close = nearest(name, self._groups)
            advice = f" (did you mean @{close}?)" if close else ""
            self._complain(group, f"no group {name}{advice}")
            return set()
        return self._members(name)

    def _complain(self, group: str, reason: str) -> None:
        self._tree.problem(("groups", group, "hosts"), reason)
