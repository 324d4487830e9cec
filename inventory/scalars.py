"""Text from a file to the number, switch or name a key asks for, with errors in plain words."""

import re
from typing import Any

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([A-Za-z]*)")
_BYTES = (
    {"": 1, "B": 1}
    | {
        f"{letter}{suffix}": base**power
        for power, letter in enumerate("KMGT", start=1)
        for suffix, base in (("iB", 1024), ("B", 1000))
    }
    | {"kB": 1000}
)
_SWITCH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def kind_of(value: Any) -> str:
    """Return what a reader would call `value`, as in ``a list``."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(value)


def text(value: Any) -> str:
    """Return `value` if it is text without control characters; raise ValueError otherwise."""
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {kind_of(value)}")
    if not value:
        raise ValueError("is empty")
    if any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise ValueError("holds a control character or line break")
    return value


def free_text(value: Any) -> str:
    """Return `value` exactly as typed, empty and several lines too; raise ValueError otherwise."""
    if value is None:
        raise ValueError("is null: write '' for empty text, or quote the word")
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {kind_of(value)}")
    if "\0" in value:
        raise ValueError("holds a NUL character")
    return value


def word(value: Any) -> str:
    """Return one word that no program can take for an option; raise ValueError otherwise."""
    found = text(value)
    if found.startswith("-"):
        raise ValueError(f"{found!r} starts with a dash, as options do")
    if re.search(r"\s", found):
        raise ValueError(f"{found!r} holds a blank")
    return found


def address(value: Any) -> str:
    """Return a host name or IP address; an IPv6 address loses its brackets."""
    found = word(value)
    if re.fullmatch(r"\[[0-9A-Fa-f:.%a-z]*:[0-9A-Fa-f:.%a-z]*\]", found):
        return found[1:-1]
    if re.search(r"[/@\\'\"`$;&|<>()]", found):
        raise ValueError(f"{found!r} is no host name or address")
    if set(found.replace("{name}", "")) & set("{}"):
        raise ValueError(f"{found!r}: only {{name}} may stand in braces")
    return found


def absolute(value: Any) -> str:
    """Return an absolute path of a host; raise ValueError otherwise."""
    found = text(value)
    if not found.startswith("/"):
        raise ValueError(f"{found!r} is no absolute path")
    return found


def integer(value: Any) -> int:
    """Return a whole number; ``0100`` and ``22:22`` are refused rather than guessed at."""
    if not isinstance(value, str) or not re.fullmatch(r"0|[1-9]\d{0,14}", value):
        raise ValueError(f"expected a whole number such as 22, found {kind_of(value)}")
    return int(value)


def switch(value: Any) -> bool:
    """Return true or false; raise ValueError for any other word."""
    found = _SWITCH.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"expected true or false, found {kind_of(value)}")
    return found


def seconds(value: Any) -> float:
    """Return a length of time in seconds: ``90``, ``90s``, ``10m``, ``1h30m``, ``1d``."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, str) and len(value) < 60 and _DURATION.fullmatch(value):
        return sum(float(count) * _SECONDS[unit] for count, unit in _PART.findall(value))
    raise ValueError(f"expected a time such as 30s, 10m or 1h30m, found {kind_of(value)}")


def size(value: Any) -> int:
    """Return a number of bytes: ``65536``, ``64MiB``, ``1.5 GiB``, ``10GB``."""
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match and match[2] in _BYTES:
        return (
            int(float(match[1]) * _BYTES[match[2]])
            if "." in match[1]
            else int(match[1]) * _BYTES[match[2]]
        )
    if match and f"{match[2].upper()}iB" in _BYTES:
        raise ValueError(f"{value!r}: say which unit: {match[1]}{match[2].upper()}iB?")
    raise ValueError(f"expected a size such as 64MiB or 2GiB, found {kind_of(value)}")


def word_list(value: Any) -> list[Any]:
    """Return a list; one bare text stands for a list of one."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise ValueError(f"expected a list, found {kind_of(value)}")
    return value


def command(value: Any) -> list[Any]:
    """Return a command as a list of arguments; a single text is refused, no shell splits it."""
    if isinstance(value, str):
        raise ValueError(
            "write the command as a list, as in [python3, train.py]; no shell reads it"
        )
    return word_list(value)
