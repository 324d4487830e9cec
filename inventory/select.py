"""Choose hosts of an inventory: names, ranges, @groups, and what is left out."""

from collections.abc import Sequence

from gpuguard.inventory.ranges import expand, fold, split_terms
from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import Host, Inventory, nearest


def select_hosts(
    inventory: Inventory, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[Host]:
    """Return the chosen hosts in the order of the file; an empty `include` means every host.

    A term is a name, a range, ``@group`` or ``@all``; ``!term`` leaves out. Terms are joined by
    commas or blanks: ``gpu[001-008],!gpu003``.

    Raises:
        UsageError: a term is malformed, names an unknown host or group, or nothing is left.
    """
    taken, left_out, faults = _Terms(inventory).read(include, exclude)
    if faults:
        raise UsageError(
            "; ".join(faults),
            f"see: gpuguard inventory show -i {inventory.path}",
            {"faults": faults},
        )
    chosen = [
        host for name, host in inventory.hosts.items() if name in taken and name not in left_out
    ]
    if not chosen:
        raise UsageError(_nothing(inventory, include, exclude), "see: gpuguard inventory show")
    return chosen


def _nothing(inventory: Inventory, include: Sequence[str], exclude: Sequence[str]) -> str:
    if not inventory.hosts:
        return f"{inventory.path}: lists no host"
    asked = " ".join([*include, *(f"!{term}" for term in exclude)])
    return f"{asked}: selects no host of {inventory.path}"


class _Terms:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._faults: list[str] = []

    def read(
        self, include: Sequence[str], exclude: Sequence[str]
    ) -> tuple[set[str], set[str], list[str]]:
        taken: set[str] = set()
        left_out: set[str] = set()
        words = [term for text in include for term in split_terms(text)]
        for term in words:
            if term.startswith("!"):
                left_out |= self._names(term[1:])
            else:
                taken |= self._names(term)
        for text in exclude:
            for term in split_terms(text):
                left_out |= self._names(term.removeprefix("!"))
        if all(term.startswith("!") for term in words):
            taken = set(self._inventory.hosts)
        return taken, left_out, self._faults

    def _names(self, term: str) -> set[str]:
        if term == "@all":
            return set(self._inventory.hosts)
        if term.startswith("@"):
            return self._group(term[1:])
        try:
            names = set(expand(term))
        except UsageError as error:
            self._faults.append(error.message)
            return set()
        missing = names - self._inventory.hosts.keys()
        if missing or not names:
            self._faults.append(_unknown(missing, term, self._inventory))
        return names - missing

    def _group(self, name: str) -> set[str]:
        if name not in self._inventory.groups:
            close = nearest(name, self._inventory.groups)
            advice = f" (did you mean @{close}?)" if close else ""
            self._faults.append(f"@{name}: no such group{advice}")
        return set(self._inventory.groups.get(name, ()))


def _unknown(missing: set[str], term: str, inventory: Inventory) -> str:
    if not missing:
        return f"{term!r}: no host name"
    if len(missing) > 1:
        return f"{fold(missing)}: no such hosts in {inventory.path}"
    name = next(iter(missing))
    choices = [*inventory.hosts, *(f"@{group}" for group in inventory.groups)]
    # A group's name without its @ is the likeliest slip.
    close = f"@{name}" if name in inventory.groups else nearest(name, choices)
    advice = f" (did you mean {close}?)" if close else ""
    return f"{name}: no such host in {inventory.path}{advice}"
