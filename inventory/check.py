"""Hold a tree against the schema and say in plain words, with positions, what does not fit."""

import copy
from typing import Any

from pydantic import ValidationError

from gpuguard.inventory.scalars import kind_of
from gpuguard.inventory.schema import Document, keys_at
from gpuguard.inventory.tree import Path, Tree
from gpuguard.model.inventory import nearest

_SECTIONS = frozenset({"stores", "policies", "groups", "hosts", "jobs"})
# What a required key is taken for while the rest of the file is looked at.
_STAND_INS: dict[str, dict[str, Any]] = {"groups": {"hosts": []}, "stores": {"path": "/"}}


def check(tree: Tree) -> Document | None:
    """Return the document, faulty parts left out and named in `tree.problems`.

    So references are checked in the same pass. None when nothing useful is left.
    """
    try:
        return Document.model_validate(tree.data)
    except ValidationError as error:
        faults = error.errors(include_url=False)
    for fault in faults:
        _add(tree, fault)
    if not isinstance(tree.data, dict):
        return None
    sound = copy.deepcopy(tree.data)
    for fault in faults:
        _leave_out(sound, tuple(fault["loc"]))
    try:
        return Document.model_validate(sound)
    except ValidationError:
        return None


def _leave_out(data: dict[str, Any], path: Path) -> None:
    """Empty an entry, or remove a key, so that the name of the entry still counts as known."""
    *above, last = path[: 2 if path[:1] in (("defaults",), ("cordon",)) else 3]
    parent: Any = data
    for part in above:
        parent = parent.get(part) if isinstance(parent, dict) else None
    if not isinstance(parent, dict):
        return
    required = _STAND_INS.get(str(path[0]), {})
    if path == ("version",):
        parent[last] = "1"
    elif len(path) > 2 and last in required:
        parent[last] = copy.deepcopy(required[last])
    elif len(path) == 2 and path[0] in _SECTIONS:
        parent[last] = copy.deepcopy(required)
    else:
        parent.pop(last, None)


def _add(tree: Tree, fault: Any) -> None:
    path: Path = tuple(fault["loc"])
    kind = fault["type"]
    if kind == "extra_forbidden":
        tree.problem(path, _unknown_key(path), at_key=True)
    elif kind == "missing":
        example = "; write version: 1" if path == ("version",) else ""
        tree.problem(path, f"is missing{example}", at_key=True)
    else:
        tree.problem(path, _reason(kind, fault))


def _unknown_key(path: Path) -> str:
    known = keys_at(path[:-1])
    close = nearest(str(path[-1]), known)
    return (
        f"unknown key (did you mean {close}?)"
        if close
        else f"unknown key; known: {', '.join(known)}"
    )


def _reason(kind: str, fault: Any) -> str:
    context = fault.get("ctx", {})
    value = fault["input"]
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return _literal(str(context["expected"]), value)
    if kind in ("model_type", "dict_type", "model_attributes_type"):
        return f"expected a mapping, found {kind_of(value)}"
    if kind == "greater_than_equal":
        return f"{value} is less than {context['ge']}"
    if kind == "less_than_equal":
        return f"{value} is more than {context['le']}"
    if kind == "greater_than":
        return f"{value} is not more than {context['gt']}"
    return str(fault["msg"])


def _literal(expected: str, value: Any) -> str:
    choices = [choice.strip("' ") for choice in expected.replace(" or ", ",").split(",")]
    close = nearest(value, choices) if isinstance(value, str) else None
    if close:
        return f"{value!r} is not known (did you mean {close}?)"
    return f"expected {' or '.join(choices)}, found {kind_of(value)}"
