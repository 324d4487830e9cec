"""What a node is: names, versions, processor, memory, its public signing key."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

from gpuguard.agent.clock import boot_id, utc_now
from gpuguard.agent.paths import NodePaths

_CRIU_SECONDS = 10.0


def host_info(paths: NodePaths) -> dict[str, Any]:
    """Return the facts of docs/protocol.md for `host.info`; memory in bytes, None for unknown."""
    from gpuguard.agent.host.cordons import read_cordons
    from gpuguard.agent.store.signature import public_key

    system, memory = os.uname(), _memory()
    return {
        "hostname": system.nodename,
        "boot_id": boot_id(),
        "kernel": system.release,
        "arch": system.machine,
        "python": ".".join(map(str, sys.version_info[:3])),
        "criu": criu_version(),
        "cpu_flags": cpu_flags(),
        "memory_total": memory.get("MemTotal"),
        "memory_available": memory.get("MemAvailable"),
        "signing_key": public_key(paths.keys),
        "cordons": read_cordons(paths),
        "at": utc_now(),
    }


def criu_version() -> Optional[str]:
    """Return CRIU's version, None if it is missing or does not say."""
    try:
        done = subprocess.run(
            ("criu", "--version"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CRIU_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in done.stdout.decode(errors="replace").splitlines():
        if line.startswith("Version:"):
            return line.partition(":")[2].strip()
    return None


def cpu_flags() -> list[str]:
    """Return the processor's feature flags, sorted."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return sorted(value.split())
    return []


def _memory() -> dict[str, int]:
    found = {}
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0]) * 1024
    return found
