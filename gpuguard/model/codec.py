"""Turn frozen dataclasses into JSON-ready dictionaries and back.

Standard library only, because it travels to nodes that have nothing but Python 3.9.
"""

import dataclasses
import types
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

# `X | None` is a type of its own from Python 3.10 on.
_UNIONS = (Union, getattr(types, "UnionType", Union))


class Record:
    """Base of every dataclass that crosses the wire or is printed as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain dictionaries, lists and scalars."""
        return {
            field.name: plain(getattr(self, field.name))
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
        }

    @classmethod
    def from_dict(cls: type[T], data: dict[str, Any]) -> T:
        """Build the record from `data`; keys it does not know are left out.

        Raises:
            ValueError: a key is missing or holds a value of another type.
        """
        hints = get_type_hints(cls)
        known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        values = {}
        for name in known & data.keys():
            try:
                values[name] = _typed(hints[name], data[name])
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise ValueError(f"{cls.__name__}.{name}: {error}") from error
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(f"{cls.__name__}: {error}") from error


def plain(value: Any) -> Any:
    """Return `value` with every record and enum in it as dictionaries, lists and scalars."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value


def _typed(hint: Any, value: Any) -> Any:
    origin = get_origin(hint)
    if origin in _UNIONS:
        if value is None:
            return None
        return _typed(next(arg for arg in get_args(hint) if arg is not type(None)), value)
    if origin is tuple:
        item = get_args(hint)[0]
        return tuple(_typed(item, entry) for entry in value)
    if origin is dict:
        item = get_args(hint)[1]
        return {str(key): _typed(item, entry) for key, entry in value.items()}
    if hint is Any:
        return value
    return _scalar(hint, value)


def _scalar(hint: Any, value: Any) -> Any:
    if issubclass(hint, (Record, Enum)):
        return hint.from_dict(value) if issubclass(hint, Record) else hint(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise TypeError(f"expected {hint.__name__}, found {value!r}")
    return value
