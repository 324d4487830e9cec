"""Tell when a missing library really means another NVIDIA driver."""

import re
from collections.abc import Mapping
from typing import Any, Optional

from gpuguard.checkpoint.diagnoses.facts import entries, first, pick
from gpuguard.checkpoint.diagnoses.rules import Finding, Sight, fill, job

_VERSIONED = re.compile(r"\.so\.(\d{3}\.\d+(?:\.\d+)?)$")
_FLEET = ("fleet", "hosts", "candidates", "fitting_hosts")


def driver_differs(sight: Sight, path: str) -> Optional[Finding]:
    """Return the finding if `path` is a library of a driver version that is not here."""
    versioned = _VERSIONED.search(path)
    recorded = pick(sight.context, "record", "driver") or first(sight.context, "driver_recorded")
    recorded = recorded or (versioned[1] if versioned else None)
    if not versioned or str(recorded) != versioned[1]:
        return None
    here = pick(sight.context, "destination", "driver") or first(
        sight.context, "driver_here", "driver_now"
    )
    here = here or sight.context.get("driver")
    return _told(sight, path, str(recorded), str(here) if here else None)


def _told(sight: Sight, path: str, recorded: str, here: Optional[str]) -> Finding:
    has = f"{here}" if here else "another driver version"
    other = fitting_host(sight.context, recorded)
    there = (
        f"Restore on {other}, which has the same driver: gpuguard restore {job(sight)} --to {other}"
        if other
        else f"Restore on a host with the same driver: gpuguard restore {job(sight)} --to HOST"
    )
    return Finding(
        "driver_version_differs",
        f"The image needs NVIDIA driver {recorded}, " + fill("{host}", sight) + f" has {has}; the "
        f"job maps libraries whose name holds the version ({path}), and a difference in the last "
        "digits is a difference.",
        f"{there}; or install driver {recorded} on "
        + fill("{host}. ", sight)
        + "Giving the other version's libraries the old names does not work.",
    )


def fitting_host(context: Mapping[str, Any], driver: str) -> Optional[str]:
    """Return the best host of the context's fleet with exactly this driver: free ones first."""
    fitting = [
        entry
        for entry in entries(context, *_FLEET)
        if str(entry.get("driver")) == driver and (entry.get("host") or entry.get("name"))
    ]
    fitting.sort(key=lambda entry: (entry.get("same_gpu") is False, entry.get("free") is False))
    return str(fitting[0].get("host") or fitting[0].get("name")) if fitting else None
