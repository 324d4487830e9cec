"""Read what is known beside the log: a mapping whose keys may be missing or of any type."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Optional

_NAME_KEYS = ("comm", "command", "name", "process", "cmd")
_MAX_FACTS, _MAX_LENGTH = 6, 200


def pick(context: Mapping[str, Any], *path: str) -> Any:
    """Return the value at the keys of `path`, or None where a step is missing."""
    value: Any = context
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def first(context: Mapping[str, Any], *keys: str) -> Any:
    """Return the first value present under one of `keys`, at the top or inside a mapping."""
    for mapping in [context, *_mappings(context)]:
        for key in keys:
            if mapping.get(key) is not None:
                return mapping[key]
    return None


def _mappings(value: Any, depth: int = 4) -> Iterator[Mapping[Any, Any]]:
    items = value.values() if isinstance(value, Mapping) else value
    if depth == 0 or not isinstance(value, (Mapping, list, tuple)):
        return
    for item in items:
        if isinstance(item, Mapping):
            yield item
        yield from _mappings(item, depth - 1)


def number(value: Any) -> Optional[int]:
    """Return `value` as an integer, or None if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def amount(context: Mapping[str, Any], *stems: str) -> Optional[int]:
    """Return the bytes given under one of `stems`, plain or with _bytes, _mib or _gib behind."""
    for stem in stems:
        for suffix, unit in (("", 1), ("_bytes", 1), ("_mib", 1 << 20), ("_gib", 1 << 30)):
            count = number(first(context, stem + suffix))
            if count is not None:
                return count * unit
    return None


def version(value: Any) -> tuple[int, ...]:
    """Return the leading dotted number of `value`; empty if there is none."""
    match = re.match(r"\D*(\d{1,9}(?:\.\d{1,9})*)", str(value), re.ASCII) if value else None
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def older(value: Any, limit: tuple[int, ...]) -> bool:
    """Tell whether `value` is known to be a version below `limit`."""
    return bool(version(value)) and version(value) < limit


def process_name(context: Mapping[str, Any], pid: Any) -> Optional[str]:
    """Return the command name that the context gives for `pid`."""
    for mapping in [context, *_mappings(context)]:
        if number(mapping.get("pid")) == number(pid) is not None:
            name = next((mapping[key] for key in _NAME_KEYS if mapping.get(key)), None)
            if isinstance(name, str):
                return name
    return None


def entries(context: Mapping[str, Any], *keys: str) -> list[Mapping[Any, Any]]:
    """Return the mappings in the lists under `keys`."""
    found: list[Mapping[Any, Any]] = []
    for key in keys:
        value = first(context, key)
        if isinstance(value, Mapping):
            found.extend([value] if "host" in value or "pid" in value else _named(value))
        elif isinstance(value, (list, tuple)):
            found.extend(item for item in value if isinstance(item, Mapping))
    return found


def _named(value: Mapping[Any, Any]) -> list[Mapping[Any, Any]]:
    return [{"host": key, **item} for key, item in value.items() if isinstance(item, Mapping)]


def size_text(count: int) -> str:
    """Return a count of bytes exactly and, from 1 KiB on, in a binary unit."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} bytes" + (
        "" if unit == "bytes" else f" ({value:.1f} {unit})".replace(".0 ", " ")
    )


def show(value: Any) -> str:
    """Return a value of the context in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{label(key)} {show(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        joint = "; " if any(isinstance(item, Mapping) for item in value) else ", "
        return joint.join(show(item) for item in value) if value else "none"
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(str(value).split())


def label(key: Any) -> str:
    """Return a key as words; names of environment variables stay as they are."""
    return str(key).replace("_", " ") if str(key).islower() else str(key)


def facts_about(context: Mapping[str, Any], about: str, told: str) -> tuple[str, ...]:
    """Return the entries whose key matches `about` and that the text `told` does not hold yet."""
    found = []
    for key, value in context.items():
        leaves = set(_leaves(value))
        if about and re.search(about, str(key)) and not all(leaf in told for leaf in leaves):
            found.append(f"{label(key)}: {show(value)}"[:_MAX_LENGTH])
    return tuple(found[:_MAX_FACTS])


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(item)
    elif value is not None:
        yield show(value)
