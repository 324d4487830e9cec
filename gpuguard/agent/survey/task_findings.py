"""Which processes of a job, or around it, stand against saving it."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from gpuguard.agent.survey.outsiders import lasting, strangers
from gpuguard.agent.survey.sentences import named, named_together
from gpuguard.agent.survey.survey import Check, Survey
from gpuguard.agent.survey.tree_record import differs, read_task, real_user
from gpuguard.model.plans import Finding

_LOOKS = 4
_PAUSE = 0.05
_SYS_RESOURCE = 1 << 24  # capabilities(7)
# Where CRIU gives up on a tree whose members differ.
_UNSHAREABLE = ("pid", "mnt", "user", "ipc", "uts", "cgroup", "time")
_CONTAINER = ("mnt", "net", "user")
_RUNTIMES = {
    "libpod": "podman container checkpoint",
    "docker": "docker checkpoint create (experimental)",
    "cri-containerd": "the kubelet's checkpoint API",
    "kubepods": "the kubelet's checkpoint API",
    "crio": "the kubelet's checkpoint API",
    "containerd": "ctr containers checkpoint",
    "lxc": "lxc-checkpoint",
    "machine.slice": "none: systemd-nspawn has no checkpoint",
}


def _strangers(survey: Survey) -> Iterator[Finding]:
    if survey.job.supervisor is None:
        return
    found = [task.pid for task in strangers(survey.job.supervisor.pid, survey.tree[0].pid)]
    if found:
        one = len(found) == 1
        text = (
            f"{named_together(found)} {'lives' if one else 'live'} in its namespaces but "
            f"{'is' if one else 'are'} not of its tree: it would be lost without a word"
        )
        yield survey.found("stranger", text if one else text.replace("it would", "they would"))


def _tracers(survey: Survey) -> Iterator[Finding]:
    for task in survey.tree:
        now = read_task(task.pid) if task.tracer else None
        if now is not None and now.start_time == task.start_time and now.tracer:
            text = f"process {task.pid} ({task.name}) is traced by {named(now.tracer)}"
            yield survey.found("traced", text)


def _stuck(survey: Survey) -> Iterator[Finding]:
    """Find tasks that stay in the kernel; one look proves nothing, reading a disk looks alike."""
    stuck = _waiting(survey.pids)
    for _ in range(_LOOKS - 1):
        if not stuck:
            return
        time.sleep(_PAUSE)
        stuck &= _waiting(survey.pids)
    for pid, task in sorted(stuck):
        stack = _stack(pid, task)
        what = f"process {pid}" + ("" if pid == task else f", thread {task},")
        where = f" in {stack[0]}" if stack else ""
        if any("vfork" in line or "kernel_clone" in line for line in stack):
            where = " for a child it made by vfork, which has not called exec yet"
        text = f"{what} waits in the kernel{where}: it cannot be frozen"
        yield survey.found(
            "uninterruptible", text + (f" ({' < '.join(stack[:6])})" if stack else "")
        )


def _users(survey: Survey) -> Iterator[Finding]:
    if _capabilities() & _SYS_RESOURCE:
        return
    own = os.geteuid()

    def look() -> dict[int, int]:
        owners = dict(map(_owner, survey.pids))
        return {pid: user for pid, user in owners.items() if user not in (None, own)}

    others = lasting(look)
    if others:
        listed = ", ".join(f"process {pid} of uid {user}" for pid, user in list(others.items())[:5])
        text = f"the agent lacks CAP_SYS_RESOURCE and cannot save processes of others: {listed}"
        yield survey.found("rights-user", text)


def _namespaces(survey: Survey) -> Iterator[Finding]:
    root = survey.tree[0].pid
    if survey.job.supervisor is None:
        other = [kind for kind in _CONTAINER if differs(kind, str(root), "self")]
        if other:
            yield _container(survey, root, other)

    def look() -> dict[int, list[str]]:
        kinds = {pid: _own_spaces(pid, root) for pid in survey.pids[1:]}
        return {pid: own for pid, own in kinds.items() if own}

    for pid, own in lasting(look).items():
        if own == ["net"]:
            text = f"{named(pid)} has a network namespace of its own"
            yield survey.found("namespace-network", text)
        else:
            text = f"{named(pid)} has {', '.join(own)} namespaces of its own"
            yield survey.found("namespace-nested", text)


def _own_spaces(pid: int, root: int) -> list[str]:
    own = [kind for kind in _UNSHAREABLE if differs(kind, str(pid), str(root))]
    return own or [kind for kind in ("net",) if differs(kind, str(pid), str(root))]


def _container(survey: Survey, root: int, kinds: list[str]) -> Finding:
    group = Path(f"/proc/{root}/cgroup").read_text(errors="replace")
    runtime = next((name for name in _RUNTIMES if name in group), None)
    text = f"it lives in {', '.join(kinds)} namespaces that gpuguard did not make"
    if runtime is None:
        return survey.found("container", text)
    remedy = f"use the runtime's own checkpoint: {_RUNTIMES[runtime]}"
    return survey.found("container", f"{text}; its control group is of {runtime}", remedy)


def _filters(survey: Survey) -> Iterator[Finding]:
    modes = {pid: _status(pid, "Seccomp") for pid in survey.pids}
    filtered = [pid for pid, mode in modes.items() if mode not in (None, "0")]
    if filtered:
        yield survey.found("seccomp", f"{len(filtered)} of its processes have a seccomp filter")


CHECKS: tuple[Check, ...] = (_strangers, _tracers, _stuck, _users, _namespaces, _filters)


def _waiting(pids: list[int]) -> set[tuple[int, int]]:
    return {(pid, task) for pid in pids for task in _threads(pid) if _state(pid, task) == "D"}


def _threads(pid: int) -> list[int]:
    try:
        return [int(item.name) for item in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []  # ended meanwhile


def _state(pid: int, task: int) -> Optional[str]:
    try:
        text = Path(f"/proc/{pid}/task/{task}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[0]


def _stack(pid: int, task: int) -> list[str]:
    """Return the functions of the kernel a task is in, innermost first; often not readable."""
    try:
        lines = Path(f"/proc/{pid}/task/{task}/stack").read_text().splitlines()
        found = [line.split()[1].partition("+")[0] for line in lines if len(line.split()) > 1]
        return found or [Path(f"/proc/{pid}/task/{task}/wchan").read_text() or "?"]
    except OSError:
        return []


def _status(pid: int, name: str) -> Optional[str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return None
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith(f"{name}:")), None
    )


def _capabilities() -> int:
    return int(_status(os.getpid(), "CapEff") or "0", 16)


def _owner(pid: int) -> tuple[int, Optional[int]]:
    try:
        return pid, real_user(pid)
    except OSError:
        return pid, None
