"""Diagnoses of failed checkpoints and restores: one known line after the other."""

from typing import Any

import pytest

from gpuguard.checkpoint.diagnosis import Diagnosis, diagnose

LOG = "/var/log/dump.log"
DUMP_FAILED = "(00.009119) Error (criu/cr-dump.c:2111): Dumping FAILED."
RESTORE_FAILED = "(00.002320) Error (criu/cr-restore.c:2320): Restoring FAILED."


def failed(*lines: str, **context: Any) -> Diagnosis:
    return diagnose([*lines, DUMP_FAILED], context, 1, LOG)


def error(text: str, place: str = "criu/some.c:1") -> str:
    return f"(00.003384) Error ({place}): {text}"


# One entry a known line: the line, the cause, words that the answer must hold.
KNOWN = [
    ("sockets: Can't get 1:16 opt: Operation not supported", "criu_too_old_for_kernel", ["4.2"]),
    (
        "inet: Connected TCP socket, consider using --tcp-established option.",
        "tcp_connection_open",
        ["--tcp-close", "--tcp-established", "both ends"],
    ),
    (
        "inet: Connected TCP socket in image",
        "tcp_option_missing_at_restore",
        ["--tcp-established", "same option"],
    ),
    ("Need to set the --tcp-close options.", "tcp_option_missing_at_restore", ["--tcp-close"]),
    (
        "inet: Can't bind inet socket (id 10): Address already in use",
        "port_in_use",
        ["port", "in use", "--to"],
    ),
    (
        "inet: Can't bind inet socket (id 10): Cannot assign requested address",
        "address_not_on_host",
        ["address", "--tcp-close"],
    ),
    (
        "Can't bind inet socket back: Cannot assign requested address",
        "address_not_on_host",
        ["network namespace"],
    ),
    (
        "Can't dump ghost file /scratch/a b.bin of 3145729 size, increase limit",
        "ghost_file_too_large",
        ["/scratch/a b.bin", "3145729", "4M"],
    ),
    (
        "Can't create link remap for /data/x. Use link-remap option.",
        "link_remap_needed",
        ["/data/x", "--link-remap"],
    ),
    (
        "Can't link dev/shm/link_remap.3 -> dev/shm/sem.q: No such file or directory",
        "link_remap_missing",
        ["/dev/shm/link_remap.3", "dev/shm/sem.q"],
    ),
    (
        "Some file locks are hold by dumping tasks! You can try --file-locks to dump them.",
        "file_locks_held",
        ["--file-locks"],
    ),
    ("Unknown shit 600 (anon_inode:[io_uring])", "io_uring", ["seccomp", "next start"]),
    (
        "Can't dump file 3 of that type [600] (anon anon_inode:[userfaultfd])",
        "kernel_object_not_supported",
        ["userfaultfd", "profiler"],
    ),
    (
        "Can't dump file 9 of that type [20666] (chr 195:255)",
        "nvidia_device_still_open",
        ["195:255", "fd 9", "570"],
    ),
    (
        "Can't dump file 9 of that type [20666] (chr 195:3)",
        "nvidia_device_still_open",
        ["minor 3"],
    ),
    (
        "Can't dump file 3 of that type [20600] (chr 10:229)",
        "device_not_supported",
        ["chr 10:229", "fd 3"],
    ),
    ("handle_device_vma plugin failed: No such file or directory", "cuda_not_suspended", ["CUDA"]),
    ("Can't handle non-regular mapping on 77's map 200000000", "cuda_not_suspended", ["77"]),
    (
        "unix: External socket is used. Consider using --ext-unix-sk option.",
        "unix_socket_to_outside",
        ["ss -xp", "--ext-unix-sk"],
    ),
    (
        "unix: Can't dump half of stream unix connection. name: (null); peer name: /run/dbus/s",
        "unix_socket_to_outside",
        ["/run/dbus/s", "close the connection"],
    ),
    (
        "tty: Found dangling tty with sid 41 pgid 42 (pts) on peer fd 1.",
        "terminal_in_use",
        ["41", "--shell-job"],
    ),
    (
        "The root process 88 is not a session leader. Consider using --shell-job option",
        "not_session_leader",
        ["88", "setsid"],
    ),
    (
        "tty: Don't have tty to inherit session from, aborting",
        "no_tty_for_shell_job",
        ["ssh -tt", "pty"],
    ),
    (
        "tty: Found slave peer index 0 without correspond master peer",
        "shell_job_option_missing",
        ["--shell-job"],
    ),
    ("Can't fork for 4711: File exists", "pid_in_use", ["4711", "namespace"]),
    (
        "File var/log/a.log has bad size 111 (expect 50)",
        "file_grew_since_dump",
        ["111", "50", "aside", ">>"],
    ),
    (
        "File usr/lib/libx.so.1 has bad size 111 (expect 50)",
        "file_changed_since_dump",
        ["/usr/lib/libx.so.1", "package"],
    ),
    (
        "File data/in.bin has bad size 40 (expect 50)",
        "file_changed_since_dump",
        ["shorter", "40", "50"],
    ),
    (
        "Can't open file data/a on restore: No such file or directory",
        "file_missing_at_destination",
        ["/data/a", "mount"],
    ),
    ("File usr/lib/liby.so has bad build-ID", "library_changed", ["/usr/lib/liby.so", "same"]),
    (
        "File run.sh has bad mode 0100400 (expect 0100644)",
        "file_mode_differs",
        ["0100400", "0100644", "chmod"],
    ),
    ("Can't open cwd: No such file or directory", "working_directory_missing", ["mkdir"]),
    (
        "cpu: CPU instruction capabilities do not match run time",
        "cpu_features_missing",
        ["CPU", "flags"],
    ),
    (
        "mnt: 637:./dev/tty doesn't have a proper root mount",
        "own_mount_namespace",
        ["./dev/tty", "nsenter"],
    ),
    (
        "mnt: Mount 919 ./run (master_id: 14 shared_id: 0) has unreachable sharing. "
        "Try --enable-external-masters.",
        "mount_sharing_unreachable",
        ["./run", "14", "--external mnt[]:m"],
    ),
    (
        "mnt: Sharing group (30, 12) has unreachable sharing. Try --enable-external-masters.",
        "mount_sharing_unreachable",
        ["--enable-external-masters"],
    ),
    (
        "Task 61 with SysVIPC shmem map @7f00 doesn't live in IPC ns",
        "sysv_shm_without_ipc_namespace",
        ["61", "IPC namespace"],
    ),
    ("Timeout reached. Try to interrupt: 0", "task_does_not_stop", ["state D", "--timeout"]),
    ("The criu itself is within dumped tree.", "criu_inside_job", ["outside"]),
    (
        "page-xfer: Unable to spice data: No space left on device",
        "disk_full",
        ["no space left", "checkpoints rm"],
    ),
    ("page-xfer: Can't write pages to socket: Broken pipe", "page_server_died", ["page server"]),
    ("page-xfer: Unable to spice data: Broken pipe", "image_streamer_died", ["streamer"]),
    ("Unexpected EOF on (empty-image)", "image_incomplete", ["cut off", "--from"]),
    (
        "Tracking memory is not available. Consider omitting --track-mem option.",
        "no_memory_tracking",
        ["MEM_SOFT_DIRTY", "full dumps"],
    ),
    ("BUG at criu/mem.c:45", "no_memory_tracking", ["pre-dump"]),
    ("BUG at criu/mount.c:48", "criu_internal_error", ["BUG at criu/mount.c:48"]),
    ("Missing required plugin: cuda_plugin", "plugin_missing", ["cuda_plugin", "--libdir"]),
    (
        'cuda_plugin: PAUSE_DEVICES failed with Could not lock on process ID 5: "device not ready"',
        "cuda_lock_timeout",
        ["5", "unlock"],
    ),
    (
        "No GPU device found but the checkpoint requires the CUDA plugin",
        "no_gpu_on_host",
        ["GPU", "--to"],
    ),
    ("cuda-checkpoint is required to restore CUDA state", "cuda_checkpoint_tool_missing", ["PATH"]),
    (
        "The checkpoint requires CUDA support from an r555 or newer driver",
        "driver_too_old",
        ["555", "570"],
    ),
    ("inet: Unsupported proto 262 for socket 1a", "mptcp_socket", ["multipathtcp=0", "MPTCP"]),
    ("sockets: BUG! Unknown socket collected (family 40)", "socket_type_not_supported", ["vsock"]),
    ("Can't lookup mount=31 for fd=3 path=/q1", "file_on_unknown_mount", ["/q1", "fd 3"]),
    ("Can't get rlimit 0: Operation not permitted", "missing_capability", ["root"]),
    (
        "Can't stat mountpoint /mnt/scratch: No such file",
        "mount_missing_at_destination",
        ["/mnt/sc"],
    ),
    (
        "unix: Can't connect 0x1 socket: No such file or directory",
        "unix_peer_missing",
        ["unix socket"],
    ),
    (
        "Can't bind transport socket /crtools-fd-3-0: Address in use",
        "restore_already_running",
        ["one after the other"],
    ),
    (
        "Unable to connect a transport socket: Permission denied",
        "security_module_blocks",
        ["dmesg"],
    ),
    ("Can't link remap to /dev/shm/sem.q: File exists", "link_remap_left_over", ["/dev/shm/sem.q"]),
    ("One of more action scripts failed", "hook_refused", ["hook"]),
    ("2001 killed by signal 11: Segmentation fault", "restored_process_died", ["2001", "11"]),
    ("2001 killed by signal 4: Illegal instruction", "cpu_features_missing", ["2001", "CPU"]),
]


@pytest.mark.parametrize(("text", "cause", "words"), KNOWN, ids=[row[0][:50] for row in KNOWN])
def test_known_line(text: str, cause: str, words: list[str]) -> None:
    diagnosis = failed(error(text))
    assert diagnosis.cause == cause
    assert diagnosis.line == error(text)
    told = f"{diagnosis.sentence} {diagnosis.remedy}".lower()
    assert [word for word in words if word.lower() not in told] == []
    assert "gpuguard " in diagnosis.remedy
    assert LOG in diagnosis.text()


@pytest.mark.parametrize(("text", "cause", "words"), KNOWN, ids=[row[0][:50] for row in KNOWN])
def test_known_line_of_a_restored_child(text: str, cause: str, words: list[str]) -> None:
    line = f"(00.001897)  90210: Error (criu/other.c:77): {text}"
    assert diagnose([line, RESTORE_FAILED], {}, 1, LOG).cause == cause


def test_row_38_is_told_on_standard_output() -> None:
    line = "CRIU needs to have the CAP_SYS_ADMIN or the CAP_CHECKPOINT_RESTORE capability:"
    assert diagnose([line], {}, 1, None).cause == "missing_capability"


def test_traced_process_is_told_by_a_warning() -> None:
    lines = [
        "(00.002) Warn  (compel/src/lib/infect.c:129): Unable to interrupt task: 812 "
        "(Operation not permitted)",
        error("Unable to detach from 812: No such process"),
    ]
    diagnosis = failed(*lines, tracer=4000, processes=[{"pid": 4000, "comm": "strace"}])
    assert diagnosis.cause == "process_traced"
    assert "pid 4000 (strace)" in diagnosis.sentence
    assert "812" in diagnosis.sentence


def test_process_that_is_gone_is_no_traced_one() -> None:
    warning = "(0.1) Warn  (compel/a.c:1): Unable to interrupt task: 812 (No such process)"
    assert failed(warning).cause == "process_gone"


def test_plugin_alarm_is_a_lock_timeout_and_names_the_process() -> None:
    lines = [
        "(00.020701) cuda_plugin: pausing devices on pid 1801089",
        error("Timeout reached. Try to interrupt: 0", "criu/cr-dump.c:1791"),
        error(
            "cuda_plugin: Unable to read output of cuda-checkpoint: Interrupted system call",
            "cuda_plugin.c:139",
        ),
        error("cuda_plugin: PAUSE_DEVICES failed with ", "cuda_plugin.c:457"),
        error("cuda_plugin: Failed to unlock process status , pid 1801089 may hang"),
    ]
    diagnosis = failed(*lines, timeout=10)
    assert diagnosis.cause == "cuda_lock_timeout"
    assert "1801089" in diagnosis.sentence
    with_nccl = failed(*lines, libs=["libnccl.so.2"])
    assert with_nccl.cause == "nccl_peer_blocks_lock"
    assert "1801089" in with_nccl.sentence


CUDA = [
    ('Could not checkpoint on process ID 9: "out of memory"', {"mig": True}, "mig_not_supported"),
    ('Could not checkpoint on process ID 9: "out of memory"', {}, "host_memory_full_at_checkpoint"),
    ('Could not restore on process ID 9: "out of memory"', {}, "gpu_memory_full_at_restore"),
    ('Could not restore on process ID 9: "invalid argument"', {}, "gpu_map_incomplete"),
    ('Could not lock on process ID 9: "invalid argument"', {}, "not_a_cuda_process"),
    ('Could not lock on process ID 9: "initialization error"', {}, "not_a_cuda_process"),
    ('Could not lock on process ID 9: "device not ready"', {}, "cuda_lock_timeout"),
    (
        'Could not unlock on process ID 9: "the operation cannot be performed in the present '
        'state"',
        {},
        "cuda_wrong_state",
    ),
    (
        'Error toggling CUDA in process ID 9: "OS call failed or operation not supported on this '
        'OS"',
        {},
        "cuda_call_refused_by_host",
    ),
    (
        'Could not lock on process ID 9: "OS call failed or operation not supported on this OS"',
        {"exit_signal": "SIGSEGV"},
        "process_died_in_cuda_call",
    ),
    ('Could not checkpoint on process ID 9: "operation not permitted"', {}, "cuda_not_permitted"),
    (
        "cuCheckpointProcessCheckpoint   -> 801 (CUDA_ERROR_NOT_SUPPORTED)",
        {"arch": "aarch64"},
        "cuda_checkpoint_not_supported",
    ),
    ("cuda-checkpoint --action checkpoint --pid 9 -> 201", {}, "cuda_context_invalid"),
    ("cuda-checkpoint --action restore --pid 9 -> something new", {}, "cuda_step_failed"),
]


@pytest.mark.parametrize(("line", "context", "cause"), CUDA)
def test_failed_cuda_step(line: str, context: dict[str, Any], cause: str) -> None:
    diagnosis = diagnose([line], context, 1, LOG)
    assert diagnosis.cause == cause
    assert "9" in diagnosis.sentence or "cuCheckpoint" in line


def test_good_cuda_steps_are_no_cause() -> None:
    lines = [
        "cuda-checkpoint --action lock --pid 8 -> ok (0.2 s)",
        "cuda-checkpoint --get-state --pid 8 -> locked",
        error("Can't fork for 77: File exists"),
    ]
    assert failed(*lines).cause == "pid_in_use"


def test_first_error_decides_not_the_later_ones() -> None:
    first, later = error("Can't open cwd"), error("Can't fork for 7: File exists")
    assert failed(first, later).cause == "working_directory_missing"
    assert failed(later, first).cause == "pid_in_use"


def test_unknown_first_line_is_said_to_be_unknown_and_quoted() -> None:
    line = error("flux: capacitor 3 misaligned")
    diagnosis = failed(line, error("Can't fork for 7: File exists"))
    assert diagnosis.cause == "not_recognised"
    assert diagnosis.confidence == "low"
    assert line in diagnosis.sentence
    assert "pid 7" in diagnosis.sentence
    assert LOG in diagnosis.text()


def test_without_any_cause_no_noise_is_quoted() -> None:
    diagnosis = failed(error("tun: Unable to create tun: No such file or directory"))
    assert diagnosis.cause == "not_recognised"
    assert "tun" not in diagnosis.text()
    assert LOG in diagnosis.remedy


def test_missing_cpu_flags_and_a_host_that_has_them() -> None:
    diagnosis = failed(
        error("cpu: CPU instruction capabilities do not match run time"),
        record={"cpu_flags": ["avx2", "avx512f"]},
        destination={"host": "old1", "cpu_flags": ["avx2"]},
        fleet=[
            {"host": "old2", "cpu_flags": ["avx2"]},
            {"host": "new3", "cpu_flags": ["avx2", "avx512f", "amx_tile"]},
        ],
    )
    assert "old1" in diagnosis.sentence
    assert "missing: avx512f" in diagnosis.sentence
    assert "--to new3" in diagnosis.remedy


def test_full_disk_with_numbers() -> None:
    line = error("page-xfer: Unable to spice data: No space left on device")
    told = failed(line, needed_gib=3, free_bytes=4096).sentence
    assert "3 GiB" in told
    assert "4096 bytes (4 KiB) free" in told


def test_plain_lines_of_a_log_are_no_cause() -> None:
    talk = "(00.001) Looking for Cannot allocate memory and Unexpected EOF on things"
    assert failed(talk, error("Can't open cwd")).cause == "working_directory_missing"


def test_success_without_doubt_is_no_failure() -> None:
    done = "(00.031900) Restore finished successfully. Tasks resumed."
    diagnosis = diagnose([error("tun: Unable to create tun: No such file"), done], {}, 0, LOG)
    assert diagnosis.cause == "no_failure_found"
    assert diagnosis.verdict == "restore_ok"


@pytest.mark.parametrize("state", ["checkpointed", "LOCKED", 2])
def test_success_with_a_sleeping_gpu_process(state: object) -> None:
    diagnosis = diagnose(["Dumping finished successfully"], {"cuda_states": {31: state}}, 0, LOG)
    assert diagnosis.cause == "cuda_left_suspended"
    assert "--action unlock --pid 31" in diagnosis.remedy


def test_success_with_a_failed_resume_in_the_log() -> None:
    lines = [
        "(00.1) Dumping finished successfully",
        error(
            "cuda_plugin: RESUME_DEVICES UNLOCK failed with Could not unlock on process ID 44: x"
        ),
    ]
    diagnosis = diagnose(lines, {}, 0, LOG)
    assert diagnosis.cause == "cuda_left_suspended"
    assert "--action unlock --pid 44" in diagnosis.remedy
    asked = diagnose(lines, {"cuda_states": {44: "running"}}, 0, LOG)
    assert asked.cause == "no_failure_found"


def test_full_gpu_after_a_good_dump_names_that_checkpoint() -> None:
    line = 'RESUME_DEVICES RESTORE failed with Could not restore on process ID 4: "out of memory"'
    diagnosis = diagnose(["(0.1) Dumping finished successfully", error(line)], {}, 0, LOG)
    assert diagnosis.cause == "gpu_memory_full_at_restore"
    assert "which is good" in diagnosis.remedy


def test_plugin_switched_off_matters_to_gpu_jobs_alone() -> None:
    lines = [
        "(0.1) Warn  (cuda_plugin.c:550): cuda_plugin: check that cuda-checkpoint is present in "
        "$PATH",
        "(0.2) Dumping finished successfully",
    ]
    assert diagnose(lines, {"gpus": [0]}, 0, LOG).cause == "gpu_memory_not_in_image"
    assert diagnose(lines, {}, 0, LOG).cause == "no_failure_found"


def test_failure_names_gpu_processes_that_sleep_on() -> None:
    diagnosis = failed(error("Can't open cwd"), cuda_states={31: "checkpointed", 32: "running"})
    assert diagnosis.cause == "working_directory_missing"
    assert "--action restore --pid 31" in diagnosis.remedy
    assert "32" not in diagnosis.remedy


OUTCOMES: list[tuple[list[str], dict[str, Any], Any, str]] = [
    (["(0.1) Restore lock: flock 8"], {"holder": {"pid": 3}}, None, "file_lock_held_elsewhere"),
    (["(0.1) reading"], {"pages": {"size": 10, "expected": 20}}, None, "image_incomplete"),
    ([], {}, -9, "criu_killed"),
    ([], {}, -11, "criu_crashed"),
    ([], {}, 255, "hook_refused"),
    ([DUMP_FAILED], {"page_server": "10.0.0.2:27"}, 1, "page_server_unreachable"),
    ([DUMP_FAILED], {}, 1, "not_recognised"),
    ([], {}, None, "not_recognised"),
    ([], {"image_bytes": 5, "gpu_memory_bytes": 9}, 0, "gpu_memory_not_in_image"),
    ([], {"exit_signal": "SIGPIPE"}, 0, "pipe_to_outside_lost"),
    ([], {"exit_signal": 4}, 0, "cpu_features_missing"),
]


@pytest.mark.parametrize(("lines", "context", "rc", "cause"), OUTCOMES)
def test_outcome_without_an_error_line(
    lines: list[str], context: dict[str, Any], rc: Any, cause: str
) -> None:
    assert diagnose(lines, context, rc, LOG).cause == cause


@pytest.mark.parametrize(
    ("criu", "kernel", "cause"),
    [
        ("4.1.1", "6.18.0-generic", "criu_too_old_for_kernel"),
        (None, None, "criu_too_old_for_kernel"),
        ("4.2", "6.18", "socket_option_refused"),
        ("4.1.1", "6.8.0", "socket_option_refused"),
    ],
)
def test_socket_option_depends_on_the_versions(criu: Any, kernel: Any, cause: str) -> None:
    line = error("sockets: Can't get 1:34 opt: Operation not supported")
    assert failed(line, criu=criu, kernel=kernel).cause == cause


def test_values_of_the_context_are_named() -> None:
    busy = error("inet: Can't bind inet socket (id 4): Address already in use")
    holder = {"pid": 9, "comm": "nginx"}
    diagnosis = failed(busy, port=29500, holder=holder, destination={"host": "gn3"}, job="train-7")
    assert "port 29500" in diagnosis.sentence
    assert "nginx" in diagnosis.sentence
    assert "gn3" in diagnosis.sentence
    assert "gpuguard restore train-7" in diagnosis.remedy


def test_facts_hold_what_the_sentence_does_not() -> None:
    peers = [{"peer": "10.0.0.9:443"}]
    line = error("inet: Connected TCP socket, consider using --tcp-established option.")
    assert failed(line, peers=peers, colour="red").facts == ("peers: peer 10.0.0.9:443",)


def test_another_drivers_library_only_if_the_versions_fit() -> None:
    def missing(path: str, **context: Any) -> Diagnosis:
        return failed(
            error(f"Can't open file {path} on restore: No such file or directory"), **context
        )

    record = {"record": {"driver": "570.1.2"}, "destination": {"host": "b", "driver": "570.1.3"}}
    assert missing("lib/libcuda.so.570.1.2", **record).cause == "driver_version_differs"
    assert missing("lib/libother.so.3.1", **record).cause == "file_missing_at_destination"
    assert missing("lib/libcuda.so.570.1.2").cause == "driver_version_differs"


def test_record_survives_the_wire() -> None:
    diagnosis = failed(error("Can't open cwd"), cwd="/work")
    assert Diagnosis.from_dict(diagnosis.to_dict()) == diagnosis
