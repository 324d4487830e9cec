"""Ids made on the operator's side, so that asking twice never does anything twice."""

import secrets
import socket
from datetime import datetime

from gpuguard.remote.person import login_name


def operation_id(verb: str, now: datetime) -> str:
    """Return a fresh id of an operation, as in ``migrate-20260131t120431z-1a2b3c``."""
    return f"{verb}-{now:%Y%m%dt%H%M%Sz}-{secrets.token_hex(3)}"


def procedure_id(operation: str, part: str, number: int = 0) -> str:
    """Return the id of one procedure of `operation`; the same parts give the same id."""
    tail = f"-{part}-{number}" if number else f"-{part}"
    return operation[: 64 - len(tail)] + tail


def asked_by() -> str:
    """Return who asks, as ``user@machine``."""
    return f"{login_name()}@{socket.gethostname()}"
