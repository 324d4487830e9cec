"""Causes found in lines about processes, terminals, sessions and namespaces."""

from collections.abc import Mapping

from gpuguard.checkpoint.diagnoses.facts import first, number, process_name, show
from gpuguard.checkpoint.diagnoses.rules import Finding, Sight, fill, host, job, rule, told

_TASKS = r"pid|task|holder|process|state|stack|tracer"


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


def _no_tty(sight: Sight) -> Finding:
    fd = sight.fd()
    by = first(sight.context, "invoked_by", "started_by", "caller")
    stdin = first(sight.context, "restore_stdin", "stdin")
    runs = f", it runs from {show(by)}" if by else ""
    runs += f" with standard input from {show(stdin)}" if stdin else ""
    was = "a tty" if fd is None else f"fd {fd} was a tty"
    return Finding(
        "no_tty_for_shell_job",
        f"The image expects a terminal ({was}), and this restore is without a terminal{runs}.",
        "Give the restore a pseudo-terminal (pty): gpuguard restore "
        f"{job(sight)} from a terminal, or by hand `ssh -tt {host(sight)} criu restore …` or "
        " `script -qec 'criu restore …' /dev/null`, with --shell-job as at the dump. In future "
        "start jobs in their own session without a terminal, output appended to a file (gpuguard "
        "jobs run does so).",
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
    state = first(sight.context, "state", "task_state")
    stack = first(sight.context, "kernel_stack", "stack", "wchan")
    seen = f" (state {show(state)})" if state else ""
    seen += f", waiting in {show(stack)}" if stack else ""
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


_SHELL_JOB = (
    "Repeat with --shell-job (the restore then needs a terminal as well): gpuguard checkpoint "
    "{job}. Better: start the job in its own session without a terminal, as gpuguard jobs run does."
)

RULES = (
    rule(r"Can't fork for (?P<taken>\d+): File exists", _pid_in_use, r"holder"),
    rule(r"Pid \d+ do(?:es)? not match expected (?P<taken>\d+)", _pid_in_use, r"holder"),
    rule(r"Don't have tty to inherit session from", _no_tty, r"invoked|stdin|tty|terminal"),
    rule(
        r"Found slave peer index \d+ without correspond master",
        told(
            "shell_job_option_missing",
            "The image was made from a job on a terminal (--shell-job), and this restore lacks "
            "that option.",
            "Restore with --shell-job and from a terminal (ssh -tt, or script): gpuguard restore "
            "{job}.",
        ),
        r"option|tty|terminal",
    ),
    rule(
        r"Found dangling tty with sid (?P<sid>\d+)",
        told(
            "terminal_in_use",
            "The job was started from a terminal: it has a tty (pts) open that belongs to session "
            "{sid} outside the job.",
            _SHELL_JOB,
        ),
        r"tty|terminal|sid|fd",
    ),
    rule(
        r"The root process (?P<pid>\d+) is not a session leader",
        told(
            "not_session_leader",
            "The job's first {task} is not a session leader: it was started without setsid, its "
            "session belongs to a shell outside the job.",
            _SHELL_JOB,
        ),
        _TASKS + "|sid",
    ),
    rule(r"Timeout reached\. Try to interrupt", _cannot_freeze, _TASKS + "|timeout|nccl|env"),
    rule(
        r"Unable to interrupt task: (?P<pid>\d+) \(No such process\)",
        told(
            "process_gone",
            "{task} does not exist (any more): the job ended before or during the dump.",
            "See how it ended: gpuguard jobs show {job}; to bring it back: gpuguard restore {job}.",
        ),
        _TASKS,
    ),
    rule(
        r"Unable to interrupt task: (?P<pid>\d+) \((?P<error>[^)]*)\)"
        r"|(?:Can't|Unable to) (?:seize|attach to)\D*(?P<pid2>\d+)",
        lambda sight: _traced(sight.having(pid=sight.groups["pid"] or sight.groups["pid2"])),
        _TASKS,
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
