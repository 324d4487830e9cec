"""Lines of CRIU and of the CUDA steps with the cause they are known by."""

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
