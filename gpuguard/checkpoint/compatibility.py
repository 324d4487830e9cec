"""Compare what a checkpoint needs with what a host is: one rule after the other, pure."""

import re
from collections.abc import Iterable
from typing import Callable, Optional

from gpuguard.checkpoint.compatibility_files import files, folders, locks, programs, space
from gpuguard.checkpoint.cpu import choosing_flags, missing_flags
from gpuguard.checkpoint.host_seen import HostSeen
from gpuguard.checkpoint.preflight_codes import found, passed
from gpuguard.model.manifests import Manifest
from gpuguard.model.plans import Finding

# What is said where the rule holds, and a code and a sentence for each thing against it.
Answer = tuple[str, list[tuple[str, str]]]
Rule = Callable[[Manifest, HostSeen], Answer]

# What can be judged from afar, by what a host says of itself.
FROM_AFAR = ("criu", "kernel", "arch", "cpu", "memory")
_MIB = 1024 * 1024
_SPARE = 64 * _MIB  # memory the host keeps beyond the job's own


def judge(
    manifest: Manifest, seen: HostSeen, names: Optional[Iterable[str]] = None
) -> list[Finding]:
    """Return a finding for each rule that holds and for each thing that stands against a host.

    `names` selects rules; all by default.
    """
    verdict = []
    for name in names or _RULES:
        text, against = _RULES[name](manifest, seen)
        verdict += [found(code, seen.name, why) for code, why in against]
        verdict += [] if against else [passed(name, seen.name, text)]
    return verdict


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the three leading numbers of a version: (6, 1, 0) for ``6.1.0-18-amd64``."""
    match = re.match(r"\d+(\.\d+)*", version.strip().lstrip("v"))
    parts = [int(part) for part in match.group().split(".")] if match else []
    return tuple([*parts, 0, 0, 0][:3])


def memory_needed(manifest: Manifest) -> int:
    """Return the bytes of memory a host must have free."""
    resident = sum(process.resident for process in manifest.tree)
    return (manifest.bytes or resident) + _SPARE


def _criu(manifest: Manifest, seen: HostSeen) -> Answer:
    made = manifest.versions.get("criu")
    if seen.criu is None:
        return "", [("criu-missing", "CRIU is not installed, or does not start")]
    if seen.criu_problem:
        return "", [("criu-too-old", seen.criu_problem)]
    if made and version_numbers(seen.criu) < version_numbers(made):
        text = f"CRIU {seen.criu} is older than {made}, which made the checkpoint"
        return "", [("criu-older", text)]
    return f"CRIU {seen.criu}, made with {made or 'an unrecorded one'}", []


def _kernel(manifest: Manifest, seen: HostSeen) -> Answer:
    was = manifest.versions.get("kernel")
    if was and version_numbers(seen.kernel)[:2] < version_numbers(was)[:2]:
        return "", [("kernel-older", f"kernel {seen.kernel} is older than {was}")]
    return f"kernel {seen.kernel}, was {was or 'not recorded'}", []


def _arch(manifest: Manifest, seen: HostSeen) -> Answer:
    was = manifest.versions.get("arch", seen.arch)
    if was != seen.arch:
        return "", [("arch-other", f"it is {seen.arch}, the job needs {was}")]
    return seen.arch, []


def _cpu(manifest: Manifest, seen: HostSeen) -> Answer:
    missing = missing_flags(manifest.cpu_flags, seen.cpu_flags)
    if missing:
        return "", [("cpu-flags", f"its CPU lacks {', '.join(missing)}")]
    if not manifest.cpu_flags:
        return "the checkpoint recorded no features", []
    return f"has all {len(choosing_flags(manifest.cpu_flags))} features that matter", []


def _user(manifest: Manifest, seen: HostSeen) -> Answer:
    user = manifest.job.user
    numbers = {process.uid for process in manifest.tree if process.uid is not None}
    if user is None:
        return "runs as the login's user", []
    if seen.job_uid is None:
        return "", [("user-missing", f"user {user} does not exist")]
    if numbers and seen.job_uid not in numbers:
        was = ", ".join(map(str, sorted(numbers)))
        text = f"user {user} is uid {seen.job_uid} there; the job comes back as uid {was}"
        return "", [("user-other-id", text)]
    return f"{user} is uid {seen.job_uid}", []


def _memory(manifest: Manifest, seen: HostSeen) -> Answer:
    need, free = memory_needed(manifest), seen.memory_available
    text = f"it has {free // _MIB} MiB of memory free, {need // _MIB} MiB are needed"
    return text, [("memory-short", text)] if free < need else []


def _ports(manifest: Manifest, seen: HostSeen) -> Answer:
    against = [("port-taken", f"{port} is taken by {who}") for port, who in seen.taken.items()]
    against += [
        ("address-missing", f"the job listens on {address}, which the host does not have")
        for address in seen.addresses_missing
    ]
    if not manifest.listens:
        return "the job listens on no port", against
    return "free: " + ", ".join(manifest.listens), against


def _pids(manifest: Manifest, seen: HostSeen) -> Answer:
    del seen
    return f"{len(manifest.tree)} processes get a pid namespace of their own", []


def _clock(manifest: Manifest, seen: HostSeen) -> Answer:
    frozen = manifest.times.frozen
    if frozen and seen.now < frozen:
        text = f"its clock says {seen.now}, before the checkpoint was taken at {frozen}"
        return "", [("clock-behind", text)]
    return f"{seen.now}", []


_RULES: dict[str, Rule] = {
    "criu": _criu,
    "kernel": _kernel,
    "arch": _arch,
    "cpu": _cpu,
    "programs": programs,
    "files": files,
    "locks": locks,
    "folders": folders,
    "user": _user,
    "memory": _memory,
    "space": space,
    "ports": _ports,
    "pids": _pids,
    "clock": _clock,
}
