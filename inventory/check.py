"""Hold a tree against the schema and say in plain words, with positions, what does not fit."""

from typing import Any

from pydantic import ValidationError

from gpuguard.inventory.scalars import kind_of
from gpuguard.inventory.schema import Document, keys_at
from gpuguard.inventory.tree import Path, Tree
from gpuguard.model.inventory import nearest


def check(tree: Tree) -> Document | None:
    """Return the document, or None after adding every fault to `tree.problems`."""
    try:
        return Document.model_validate(tree.data)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            _add(tree, fault)
        return None


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
