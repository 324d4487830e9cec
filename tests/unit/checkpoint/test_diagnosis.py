"""Diagnoses of failed checkpoints and restores: one known line after the other."""

from typing import Any

import pytest

from gpuguard.checkpoint.diagnosis import Diagnosis, diagnose
from tests.unit.checkpoint.known_lines import CUDA, KNOWN

LOG = "/var/log/dump.log"
DUMP_FAILED = "(00.009119) Error (criu/cr-dump.c:2111): Dumping FAILED."
RESTORE_FAILED = "(00.002320) Error (criu/cr-restore.c:2320): Restoring FAILED."


def failed(*lines: str, **context: Any) -> Diagnosis:
    return diagnose([*lines, DUMP_FAILED], context, 1, LOG)


def error(text: str, place: str = "criu/some.c:1") -> str:
    return f"(00.003384) Error ({place}): {text}"


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
