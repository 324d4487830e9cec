"""Read the params of a call; what is missing or of another type is the caller's error."""

from typing import Any, TypeVar

from gpuguard.model.codec import Record
from gpuguard.model.errors import UsageError

R = TypeVar("R", bound=Record)
T = TypeVar("T")

_REQUIRED = object()


def take(params: dict[str, Any], name: str, kind: type[T], default: Any = _REQUIRED) -> T:
    """Return params[name] as `kind`; raises UsageError if it is missing or another type."""
    value = params.get(name)
    if value is None:
        if default is _REQUIRED:
            raise UsageError(f"the call lacks {name!r}")
        value = default
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise UsageError(f"{name!r} must be {kind.__name__}, found {value!r}")
    return value


def take_record(params: dict[str, Any], name: str, kind: type[R]) -> R:
    """Return params[name] as a record; raises UsageError if it is none."""
    data: dict[str, Any] = take(params, name, dict)
    try:
        return kind.from_dict(data)
    except ValueError as error:
        raise UsageError(f"{name!r}: {error}") from error
