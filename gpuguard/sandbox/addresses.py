"""Claims a range of addresses for a sandbox: one symlink a range, pointing to its owner."""

import json
import zlib
from ipaddress import IPv4Network
from pathlib import Path

from gpuguard.model.errors import RefusedError
from gpuguard.sandbox.tools import run_tool

_CLAIMS = Path("/run")
_PREFIX = "gpuguard-sandbox-198.18."


def claim_subnet(owner: Path, wanted: int | None = None) -> int:
    """Claim a free 198.18.x.0/24 for the sandbox folder `owner` and return x.

    `wanted` is tried first. Raises RefusedError if all 256 are taken.
    """
    mine = claimed_subnet(owner)
    if mine is not None:
        return mine
    # Each sandbox starts to look at its own place, so that its addresses seldom change.
    first = wanted if wanted is not None else zlib.crc32(str(owner).encode())
    used = _used_networks()
    for offset in range(256):
        subnet = (first + offset) % 256
        network = IPv4Network(f"198.18.{subnet}.0/24")
        if not any(network.overlaps(other) for other in used) and _claim(subnet, owner):
            return subnet
    raise RefusedError(
        "the sandbox finds no free range: every 198.18.x.0/24 is in use on this machine",
        "ip route show table all | grep 198.18.",
    )


def claimed_subnet(owner: Path) -> int | None:
    """Return the x of the range that `owner` has claimed, or None."""
    for path in _CLAIMS.glob(f"{_PREFIX}*"):
        if path.is_symlink() and path.readlink() == owner:
            return int(path.name.removeprefix(_PREFIX))
    return None


def release_subnet(subnet: int, owner: Path) -> None:
    """Give the range back if `owner` holds it."""
    path = _CLAIMS / f"{_PREFIX}{subnet}"
    if path.is_symlink() and path.readlink() == owner:
        path.unlink()


def _claim(subnet: int, owner: Path) -> bool:
    path = _CLAIMS / f"{_PREFIX}{subnet}"
    try:
        path.symlink_to(owner)  # fails if it exists: two sandboxes cannot both get it
    except FileExistsError:
        return False
    return True


def _used_networks() -> list[IPv4Network]:
    """Return what the machine routes anywhere, the default route aside."""
    routes = json.loads(run_tool(["ip", "-4", "-j", "route", "show", "table", "all"]))
    named = [route["dst"] for route in routes if route["dst"] != "default"]
    networks = [IPv4Network(name, strict=False) for name in named]
    return [network for network in networks if network.prefixlen >= 8]
