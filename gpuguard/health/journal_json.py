"""Lines of `journalctl -o json` and of container logs: the message inside, and who wrote it."""

import json
from datetime import datetime, timezone
from typing import Any, Optional

from gpuguard.health.stamps import Prefix

_LONGEST = 1 << 20
_USER = 1  # the facility of what is not known to be the kernel's


def unpack(line: bytes) -> Optional[tuple[bytes, Prefix]]:
    """Return the message and its origin; None if `line` is no such record."""
    if len(line) > _LONGEST:
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    message = _message(record.get("MESSAGE"))
    if message is not None:
        return message, _origin(record)
    log = record.get("log")
    if isinstance(log, str):
        return log.encode(errors="replace"), Prefix(relayed=True)
    return None


def _message(value: Any) -> Optional[bytes]:
    if isinstance(value, str):
        return value.encode(errors="replace")
    if isinstance(value, list):
        try:
            return bytes(value)
        except (TypeError, ValueError):
            return None
    return None


def _origin(record: dict[str, Any]) -> Prefix:
    transport = record.get("_TRANSPORT")
    facility = _number(record.get("SYSLOG_FACILITY"))
    if transport not in (None, "kernel"):
        facility = facility or _USER  # a program may claim any facility, its transport does not lie
    elif transport == "kernel" and facility is None:
        facility = 0
    real = _number(record.get("__REALTIME_TIMESTAMP"))
    boot = _number(record.get("_SOURCE_MONOTONIC_TIMESTAMP"))
    host = record.get("_HOSTNAME")
    seconds = boot if boot is not None else real
    axis = "boot" if boot is not None else "utc"
    return Prefix(
        form="wall" if real is not None else "none" if boot is None else "boot_seconds",
        stamp=_iso(real) if real is not None else None if boot is None else boot / 1e6,
        axis=axis if seconds is not None else "",
        seconds=None if seconds is None else seconds / 1e6,
        host=host if isinstance(host, str) else None,
        facility=facility,
        relayed=transport not in (None, "kernel"),
    )


def _number(value: Any) -> Optional[int]:
    text = str(value) if isinstance(value, (str, int)) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _iso(microseconds: int) -> Optional[str]:
    try:
        moment = datetime.fromtimestamp(microseconds / 1e6, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat()
