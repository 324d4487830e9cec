"""`ping` and `host.info` as the wire calls them."""

from typing import Any

from gpuguard.agent.clock import boottime, utc_now
from gpuguard.agent.methods import Emit
from gpuguard.agent.paths import NodePaths


def ping(params: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Answer `ping`."""
    return {"at": utc_now(), "monotonic": boottime()}


def info(params: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Answer `host.info`."""
    from gpuguard.agent.host.info import host_info

    return host_info(NodePaths())
