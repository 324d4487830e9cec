"""Causes found in lines about processes and their namespaces."""

import re
from collections.abc import Mapping

from gpuguard.checkpoint.diagnoses.cuda import lock_without_answer
from gpuguard.checkpoint.diagnoses.facts import first, number, process_name, show
from gpuguard.checkpoint.diagnoses.rules import Finding, Sight, fill, job, rule, told

_CUDA_LOCK = re.compile(
    r"(cuda_plugin: (?:PAUSE_DEVICES failed|Unable to read output)|cuda-checkpoint.*\block\b)"
)
_TASKS = r"pid|task|stuck|blocked|holder|process|state|stack|tracer"


def _pid_in_use(sight: Sight) -> Finding:
    pid = sight.groups["taken"]
    owner = first(sight.context, "holder", "holders", "held_by")
    zombie = isinstance(owner, Mapping) and str(owner.get("state", "")).upper().startswith("Z")
    reap = (
        " The holder is a zombie: its parent must reap it (or end) before the pid is free."
        if zombie
        else " If the holder is a zombie, its parent must reap it."
    )
    named = fill("held by {holder}", sight) if owner else "held by another process"
    return Finding(
        "pid_in_use",
        f"The job needs pid {pid} again, and pid {pid} is in use (taken) on "
        + fill("{host}", sight)
        + f", {named}.",
        f"Restore into a private pid namespace, where taken pids do not matter: gpuguard restore "
        f"{job(sight)}. If the holder is the old copy of this job, stop that copy first (gpuguard "
        f"jobs stop {job(sight)}); else wait until it ends.{reap}",
    )


def _traced(sight: Sight) -> Finding:
    tracer = first(sight.context, "tracer", "tracer_pid", "TracerPid", "traced_by")
    pid = number(tracer)
    name = process_name(sight.context, pid) if pid else None
    by = f"pid {pid}" + (f" ({name})" if name else "") if pid else show(tracer)
    known = f"is being traced by {by}" if tracer else "is being traced (gdb, strace, a second dump)"
    return Finding(
        "process_traced",
        fill("{task} ", sight) + known + " or may not be traced by this user, so CRIU cannot "
        "stop it.",
        fill(
            "See TracerPid in /proc/{pid}/status; detach that debugger or let the other dump end, "
            "then: gpuguard checkpoint {job}. If nobody traces it, rights are missing: gpuguard "
            "doctor {HOST}.",
            sight,
        ),
        "high" if tracer else "medium",
    )


def _cannot_freeze(sight: Sight) -> Finding:
    if sight.later(_CUDA_LOCK):
        # The alarm rang while a cuda-checkpoint of the plugin was waiting for its lock.
        return lock_without_answer(sight.having(action="lock", problem="no answer in time"))
    state = first(sight.context, "state", "task_state")
    stack = first(sight.context, "kernel_stack", "stack", "wchan")
    known = [f"state {show(state)}" if state else "", f"waiting in {show(stack)}" if stack else ""]
    seen = f" ({', '.join(filter(None, known))})" if any(known) else ""
    return Finding(
        "task_does_not_stop",
        fill("{task}", sight) + f"{seen} did not stop within the time limit: it waits inside the "
        "kernel (state D: storage, a vfork child) or in a CUDA call that does not return.",
        fill(
            "Look at state and kernel stack of the job's tasks (/proc/{pid}/stack, gpuguard jobs "
            "show {job}), clear what they wait for, then with a longer --timeout: gpuguard "
            "checkpoint {job}. For NCCL jobs check NCCL_P2P_DISABLE.",
            sight,
        ),
        "medium",
    )


_GONE = told(
    "process_gone",
    "{task} does not exist (any more): the job ended before or during the dump.",
    "See how it ended: gpuguard jobs show {job}; to bring it back: gpuguard restore {job}.",
)

RULES = (
    rule(r"Can't fork for (?P<taken>\d+): File exists", _pid_in_use, r"holder"),
    rule(r"Pid \d+ do(?:es)? not match expected (?P<taken>\d+)", _pid_in_use, r"holder"),
    rule(r"Timeout reached\. Try to interrupt", _cannot_freeze, _TASKS + "|timeout|nccl|env"),
    rule(
        r"Unable to interrupt task: (?P<pid>\d+) \(No such process\)"
        r"|Failed to open /proc/(?P<pid2>\d+)/\w+: No such file",
        lambda sight: _GONE(sight.having(pid=sight.groups["pid"] or sight.groups["pid2"])),
        _TASKS,
    ),
    rule(
        r"Unable to interrupt task: (?P<pid>\d+) \((?P<error>[^)]*)\)"
        r"|(?:Can't|Unable to) (?:seize|attach to)\D*(?P<pid2>\d+): Operation not permitted",
        lambda sight: _traced(sight.having(pid=sight.groups["pid"] or sight.groups["pid2"])),
        _TASKS,
    ),
    rule(
        r"Unable to connect a transport socket: Permission denied",
        told(
            "security_module_blocks",
            "A security module (AppArmor, SELinux) of {host} forbids {task} to talk to CRIU.",
            "See dmesg on {HOST} for the denial and loosen the profile of the job or its "
            "container, then: gpuguard checkpoint {job}.",
            "medium",
        ),
        r"selinux|apparmor|profile|container|security",
    ),
    rule(
        r"(?P<pid>\d+) killed by signal 4\b",
        told(
            "cpu_features_missing",
            "{task} died by an illegal instruction (signal 4) during the restore: the CPU of "
            "{host} lacks instructions that the job found on the source.",
            "Restore on a host whose CPU has all flags of the source: gpuguard restore {job} --to "
            "HOST.",
        ),
        r"cpu|flag|host|record",
    ),
    rule(
        r"(?P<pid>\d+) killed by signal (?P<signal>\d+)",
        told(
            "restored_process_died",
            "{task} died by signal {signal} during the restore; an old CRIU on a newer kernel or "
            "C library is the usual reason for signal 11, the memory killer for signal 9.",
            "Look at dmesg on {HOST}, compare the versions of CRIU and kernel (gpuguard doctor "
            "{HOST}), then: gpuguard restore {job} --to OTHER_HOST.",
            "medium",
        ),
        r"criu|kernel|memory",
    ),
    rule(r"Unseizable non-zombie (?P<pid>\d+) found, state D", _cannot_freeze, _TASKS),
    rule(
        r"The criu itself is within dumped tree",
        told(
            "criu_inside_job",
            "CRIU was started from inside the job (from its own shell), so it would have to save "
            "itself.",
            "Start the checkpoint from outside the job's process tree: gpuguard checkpoint {job}.",
        ),
        _TASKS,
    ),
    rule(
        r"Task (?P<pid>\d+) with SysVIPC shmem map @(?P<map>\w+) doesn't live in IPC ns",
        told(
            "sysv_shm_without_ipc_namespace",
            "{task} uses System V shared memory (SysV, mapped at {map}) of the host; CRIU saves it "
            "only inside an own IPC namespace.",
            "Start the job in its own IPC namespace (gpuguard jobs run does so, by hand: unshare "
            "--ipc); nothing can be done for the running process. Then: gpuguard checkpoint {job}.",
        ),
        _TASKS + "|shm|ipc",
    ),
    rule(
        r"can only be restored in a new pid namespace|Unable to restore into an empty PID namespace"
        r"|Can't dump a pid namespace without the process init"
        r"|is outside of its pid namespace"
        r"|Can't make pidns id|Can't open self\b",
        told(
            "pid_namespace_mismatch",
            "The dump or restore was not run in the pid and mount namespaces that this job lives "
            "in or needs.",
            "Let gpuguard enter the namespaces under its supervisor: gpuguard checkpoint {job} or "
            "gpuguard restore {job}; by hand: nsenter into pid and mount namespace together.",
            "medium",
        ),
        _TASKS + "|namespace",
    ),
)
