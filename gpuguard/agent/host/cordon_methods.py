"""`cordon.*` as the wire calls them."""

from typing import Any

from gpuguard.agent.arguments import take, take_record
from gpuguard.agent.host.cordons import lift_cordon, read_cordons, set_cordon
from gpuguard.agent.methods import Emit
from gpuguard.agent.paths import NodePaths
from gpuguard.model.cordons import Cordon


def show(params: dict[str, Any], emit: Emit) -> list[Cordon]:
    """Answer `cordon.show`."""
    return read_cordons(NodePaths())


def set_(params: dict[str, Any], emit: Emit) -> list[Cordon]:
    """Answer `cordon.set`."""
    return set_cordon(NodePaths(), take_record(params, "cordon", Cordon))


def lift(params: dict[str, Any], emit: Emit) -> list[Cordon]:
    """Answer `cordon.lift`."""
    named = take(params, "cordon", str) if params.get("cordon") is not None else None
    return lift_cordon(NodePaths(), take(params, "owner", str), named)
