"""What can stand against saving a job: gpuguard doctor --job."""

from gpuguard.checkpoint.code_entry import Code, error, remark, warning

_SWITCH_OFF = "switch it off in the program, or end the part of it that uses it"
_START_WITH_US = "start the job with gpuguard jobs run, which gives it namespaces of its own"

DUMP: dict[str, Code] = {
    "job-not-running": error(
        "the job does not run, so there is nothing to save",
        "see its state: gpuguard jobs show JOB",
    ),
    "job-outdated": error(
        "the store says that a later copy of the job exists elsewhere",
        "end this copy: gpuguard jobs forget JOB --force",
    ),
    "criu-unfit": error(
        "CRIU is missing, does not start, or is too old for this kernel",
        "install CRIU 4.2 or newer on the host",
    ),
    "stranger": error(
        "a process lives in the job's namespaces but not in its tree; it would be lost",
        "end it, or start it as a child of the job",
    ),
    "shared-outside": error(
        "a process outside of the tree holds the other end of a pipe or a socket of the job",
        "end that process, or start the job without it: output into a file, not into a pipe",
    ),
    "traced": error(
        "a debugger or tracer is attached; only one can be",
        "detach or end the tracer",
    ),
    "uninterruptible": error(
        "a task waits in the kernel and cannot be frozen: a vfork, a dead file server, a driver",
        "wait until it is through; if it never is, look at the file server or at dmesg",
    ),
    "rights-user": error(
        "the job runs as another user and the agent lacks CAP_SYS_RESOURCE",
        "give the agent's login all capabilities: run its sshd outside of the container",
    ),
    "container": error(
        "an adopted job lives in a container, whose mounts only its runtime knows",
        f"use the runtime's own checkpoint, or {_START_WITH_US}",
    ),
    "namespace-nested": error(
        "a process of the job has made namespaces of its own",
        "start the job without the sandboxing of its children",
    ),
    "namespace-network": warning(
        "a process of the job has made a network namespace; it is saved as CRIU sees it",
        "try a restore on another host while the job still runs: gpuguard migrate JOB",
    ),
    "terminal-own": warning(
        "the job has made a terminal of its own; it comes back under the same number only",
        "restore where no login uses that number, or start the job without a terminal",
    ),
    "terminal": error(
        "the job uses a terminal, which does not exist where it comes back",
        "start it without one: gpuguard jobs run, or setsid with output into a file",
    ),
    "tcp-open": error(
        "there are open TCP connections and the policy says tcp: refuse",
        "close them, or set tcp: close in the policy (the job must reconnect then)",
    ),
    "tcp-closed": warning(
        "open TCP connections are closed in the checkpoint; the running job keeps them",
        "make sure that the job reconnects; processes of one job on one host count too",
    ),
    "mptcp": error(
        "Multipath TCP cannot be saved; programs in Go use it by default",
        "start the job with GODEBUG=multipathtcp=0, or sysctl net.mptcp.enabled=0 before it",
    ),
    "vsock": error("VM sockets cannot be saved", _SWITCH_OFF),
    "socket-kind": error("CRIU does not know this kind of socket", _SWITCH_OFF),
    "packet-socket": remark(
        "a packet socket is saved, but is bound to a network interface by number",
        "restore on a host whose interfaces have the same numbers",
    ),
    "unix-stream-outside": error(
        "a Unix socket is connected to a process outside of the tree: half of it cannot be saved",
        "close the connection, or end the other side",
    ),
    "unix-datagram-outside": error(
        "a Unix datagram socket sends to a process outside of the tree, such as syslog",
        "let the job log to its output, and close the socket",
    ),
    "io-uring": error(
        "io_uring is in use; no release of CRIU saves it",
        "switch it off: UV_USE_IO_URING=0 for libuv, or a seccomp filter before the start",
    ),
    "userfaultfd": error("memory is served by userfaultfd", _SWITCH_OFF),
    "perf-event": error(
        "a profiler holds performance counters in the job",
        "stop the profiler",
    ),
    "bpf": error("a BPF program or map is held", "stop the tracer or agent that loaded it"),
    "anon-inode": error("an object of the kernel is open that CRIU does not know", _SWITCH_OFF),
    "device": error(
        "a device is open or mapped",
        "close it; GPU state has to be moved off the device first",
    ),
    "mqueue": error("a POSIX message queue is open", _SWITCH_OFF),
    "file-unreachable": error(
        "an open file lies on a mount that the job's namespace does not show",
        "close it, or keep the file system mounted while the job runs",
    ),
    "sysv-memory": error(
        "System V shared memory of the host is in use",
        _START_WITH_US,
    ),
    "link-remap": error(
        "an open file was removed under the name it was opened by, but has another name still",
        "remove the other name too, or open the file by the name that stays",
    ),
    "semaphore-named": error(
        "a named POSIX semaphore is in use whose file in /dev/shm still has a name",
        "sem_unlink it once every process has opened it, as Python's multiprocessing does",
    ),
    "file-deleted": remark(
        "removed files that are still open are saved whole, inside the images",
        "none is needed; restart the job after an upgrade of its program to save the room",
    ),
    "file-large": warning(
        "an open file is larger than the capture limit and does not travel",
        "raise capture_limit in the policy, or keep the file on storage that every host mounts",
    ),
    "file-locked": remark(
        "file locks are held; a restore takes them again",
        "none is needed; where another process holds one, the restore is refused",
    ),
    "seccomp": remark("a seccomp filter is in force; it is saved with the job", "none is needed"),
    "store-none": error(
        "the policy names no store",
        "name a store in the policy of the inventory",
    ),
    "store-unfit": error(
        "the store is gone, full, read-only or another one than before",
        "mount it, free it or correct its path, then gpuguard doctor",
    ),
    "store-taken": error(
        "the store keeps checkpoints of another job of this name",
        "choose another name for this job",
    ),
    "store-room": error("the store has too little room", "free some, or name another store"),
    "stage-room": error("the stage has too little room", "free some, or name another stage"),
    "stage-noexec": error(
        "the stage is mounted noexec: the commit gate's script cannot run",
        "name another stage in the policy",
    ),
    "stage-memory": error(
        "the stage is in memory, and there is too little of it for the images",
        "name a stage on a disk in the policy",
    ),
}
