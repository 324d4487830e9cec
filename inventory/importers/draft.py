"""An inventory in the making, and how it is written as YAML."""

import re
from dataclasses import dataclass, field
from typing import Any

from gpuguard.inventory.ranges import fold

Settings = dict[str, Any]
# No source knows it, and a folder that is only guessed may be another one on each host.
_STORE = """
# Nothing can be saved without a store: put the folder all hosts share here, and take the # away.
# stores: {shared: {path: /srv/gpuguard}}
# policies: {default: {store: shared}}
"""


@dataclass
class Draft:
    """What an importer found; `notes` say what could not be taken over, and why."""

    source: str
    defaults: Settings = field(default_factory=dict)
    groups: dict[str, Settings] = field(default_factory=dict)  # with a list under "hosts"
    hosts: dict[str, Settings] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def render(draft: Draft) -> str:
    """Return `draft` as the text of an inventory; hosts with equal settings share a range."""
    import yaml

    data: dict[str, Any] = {"version": 1}
    if draft.defaults:
        data["defaults"] = draft.defaults
    if draft.groups:
        data["groups"] = draft.groups
    data["hosts"] = _folded(draft.hosts)
    header = [f"# Imported from {_line(draft.source)}"]
    header += [f"# {_line(note)}" for note in draft.notes]
    # Anchors for repeated settings would only puzzle the person who edits the file next.
    dumper = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    body = yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=100)
    return "\n".join([*header, body]) + _STORE


def _folded(hosts: dict[str, Settings]) -> dict[str, Settings]:
    """Return `hosts` with series such as gpu1, gpu2 written as ranges, in their order."""
    series: dict[tuple[str, str], list[str]] = {}
    for name, settings in hosts.items():
        own = "address" in settings and "{name}" not in settings["address"]
        shape = name if own else re.sub(r"\d+", "#", name)
        series.setdefault((shape, repr(sorted(settings.items()))), []).append(name)
    return {fold(names): hosts[names[0]] for names in series.values()}


def _line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
