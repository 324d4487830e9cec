"""`procedures.*` as the wire calls them."""

from typing import Any

from gpuguard.agent.arguments import take, take_record
from gpuguard.agent.methods import Emit
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures import requests as procedures
from gpuguard.model.procedures import ProcedureRequest, ProcedureStatus


def start(params: dict[str, Any], emit: Emit) -> ProcedureStatus:
    """Answer `procedures.start`."""
    return procedures.start_procedure(NodePaths(), take_record(params, "request", ProcedureRequest))


def watch(params: dict[str, Any], emit: Emit) -> ProcedureStatus:
    """Answer `procedures.watch`."""
    after = take(params, "after_seq", int, 0)
    return procedures.watch_procedure(NodePaths(), take(params, "id", str), after, emit, emit.pause)


def tell(params: dict[str, Any], emit: Emit) -> ProcedureStatus:
    """Answer `procedures.tell`."""
    data: dict[str, Any] = take(params, "data", dict, {})
    return procedures.tell_procedure(
        NodePaths(), take(params, "id", str), take(params, "word", str), data
    )


def list_all(params: dict[str, Any], emit: Emit) -> list[ProcedureStatus]:
    """Answer `procedures.list`."""
    return procedures.list_procedures(NodePaths())


def show(params: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Answer `procedures.show`."""
    return procedures.show_procedure(NodePaths(), take(params, "id", str))
