"""Causes that no error line tells: states, return codes and silence."""

import re
from collections.abc import Mapping
from typing import Any, Callable, Optional

from gpuguard.checkpoint.diagnoses.facts import amount, first, number, pick, show, size_text
from gpuguard.checkpoint.diagnoses.rules import Case, Finding

_SUSPENDED = ("checkpointed", "locked", "checkpointing", "restoring", "failed")
_STATE_NUMBERS = {0: "running", 1: "locked", 2: "checkpointed", 3: "failed"}
_NOT_RESUMED = re.compile(
    r"RESUME_DEVICES (?P<step>RESTORE|UNLOCK) failed with(?:.*process ID (?P<pid>\d+))?"
)
_SWITCHED_OFF = re.compile(r"check that cuda-checkpoint is present|Disabling CUDA plugin")
_LOCK_LINE = re.compile(r"\b(?:f?lock|posix lock|lease)\b", re.IGNORECASE)


def suspended(context: Mapping[str, Any]) -> dict[str, str]:
    """Return the CUDA processes that are known not to run, with their state."""
    states = first(context, "cuda_states", "cuda_state_by_pid")
    if not isinstance(states, Mapping):
        return {}
    words = {str(pid): _word(state) for pid, state in states.items()}
    return {pid: word for pid, word in words.items() if word in _SUSPENDED}


def _word(state: Any) -> str:
    return _STATE_NUMBERS.get(state, "") if isinstance(state, int) else str(state).lower()


def resume_advice(states: Mapping[str, str]) -> str:
    """Return the commands that get suspended CUDA processes running again."""
    commands = [
        " && ".join(
            f"cuda-checkpoint --action {action} --pid {pid}"
            for action in (("unlock",) if state == "locked" else ("restore", "unlock"))
        )
        for pid, state in states.items()
    ]
    return "; ".join(commands)


def left_suspended(case: Case) -> Optional[Finding]:
    """Tell that CRIU took it for a success while CUDA processes still sleep."""
    states = suspended(case.context) or _not_resumed(case)
    if not states:
        return None
    pids = ", ".join(f"{pid} ({state})" for pid, state in states.items())
    no_plugin = first(case.context, "plugin_loaded") is False
    why = "CRIU ran without its CUDA plugin and does not" if no_plugin else "CRIU does not"
    return Finding(
        "cuda_left_suspended",
        f"CRIU's part is done and the CPU side is back, but on the CUDA side process {pids} is "
        f"still suspended; {why} see this as an error. The job does not run.",
        f"Resume it now, restore and unlock: {resume_advice(states)}; then look at state and "
        f"progress: gpuguard jobs show {case.job}. Its exit code is no proof of success.",
    )


def _not_resumed(case: Case) -> dict[str, str]:
    """Return what the log of CRIU's plugin tells, where nobody asked the states themselves."""
    if first(case.context, "cuda_states") is not None:
        return {}
    found = [_NOT_RESUMED.search(line.text) for line in case.lines if line.level == "Error"]
    steps = {"RESTORE": "checkpointed", "UNLOCK": "locked"}
    return {match["pid"] or "PID": steps[match["step"]] for match in found if match}


def plugin_switched_off(case: Case) -> Optional[Finding]:
    """Tell that CRIU's plugin gave up with a warning while the job uses a GPU."""
    on_gpu = any(
        re.search(r"^(?:cuda|gpu)", str(key)) and case.context[key] for key in case.context
    )
    warned = any(line.level == "Warn" and _SWITCHED_OFF.search(line.text) for line in case.lines)
    if not (on_gpu and warned):
        return None
    return Finding(
        "gpu_memory_not_in_image",
        "CRIU reported success, but its CUDA plugin had switched itself off with a warning "
        "(cuda-checkpoint missing, or the driver too old): the GPU's state was not saved.",
        "Do not rely on this checkpoint. Install cuda-checkpoint on the PATH of root and driver "
        f"570 or newer, then: gpuguard checkpoint {case.job}.",
    )


def gpu_memory_missing(case: Case) -> Optional[Finding]:
    """Tell that an image is smaller than the GPU memory that it should hold."""
    image = amount(case.context, "image", "images", "image_size")
    used = amount(case.context, "gpu_memory", "gpu_memory_used", "device_memory")
    if image is None or used is None or image >= used:
        return None
    return Finding(
        "gpu_memory_not_in_image",
        f"CRIU reported success, but the image has only {size_text(image)} while the job used "
        f"{size_text(used)} of GPU memory: the GPU's state was not saved.",
        "Do not rely on this checkpoint. See that cuda-checkpoint is on the PATH of root and that "
        f"CUDA was suspended, then: gpuguard checkpoint {case.job}.",
    )


def died_afterwards(case: Case) -> Optional[Finding]:
    """Tell why a job died right after a good restore, by its signal."""
    value = first(case.context, "exit_signal", "job_signal", "died_by", "signal")
    signal = {13: "SIGPIPE", 4: "SIGILL"}.get(number(value) or 0, str(value))
    if signal not in ("SIGPIPE", "SIGILL"):
        return None
    if signal == "SIGPIPE":
        return Finding(
            "pipe_to_outside_lost",
            "The job was restored and died at once by SIGPIPE: its output was a pipe to a process "
            "outside the job, which is not part of the image.",
            f"Start the job with its output appended to a file (gpuguard jobs run does so); the "
            f"checkpoint itself is good: gpuguard checkpoints show {case.job}.",
        )
    return Finding(
        "cpu_features_missing",
        "The job was restored and died by an illegal instruction (SIGILL): this host's CPU lacks "
        "features that the job found on the source.",
        f"Restore on a host whose CPU has all flags of the source: gpuguard restore {case.job} "
        "--to HOST.",
    )


def waits_for_lock(case: Case) -> Optional[Finding]:
    """Tell a restore that never ends because another process holds a file lock."""
    last = case.lines[-1].text if case.lines else ""
    if case.rc is not None or case.verdict or not _LOCK_LINE.search(last):
        return None
    held = first(case.context, "holder", "lock_holder", "held_by")
    return Finding(
        "file_lock_held_elsewhere",
        "The restore waits for a file lock (flock) that "
        + (f"{show(held)} holds" if held else "another process holds")
        + "; CRIU waits for ever.",
        "End the lock's holder with its owner's consent (see /proc/locks); then end the half "
        f"restored copy and start again: gpuguard restore {case.job}.",
    )


def pages_cut(case: Case) -> Optional[Finding]:
    """Tell a restore that spins because its pages file is shorter than recorded."""
    block = pick(case.context, "pages")
    block = block if isinstance(block, Mapping) else case.context
    size = number(block.get("size") or block.get("pages_size"))
    expected = number(block.get("expected") or block.get("pages_expected"))
    if case.rc is not None or size is None or expected is None or size >= expected:
        return None
    return Finding(
        "image_incomplete",
        f"The pages file of the image is cut: {size_text(size)} of {size_text(expected)}; CRIU "
        "reads its end for ever.",
        f"Check it with gpuguard checkpoints verify {case.job} and restore an earlier one: "
        f"gpuguard restore {case.job} --from ID.",
    )


def criu_ended(case: Case) -> Optional[Finding]:
    """Tell return codes that mean a killed, crashed or refused CRIU."""
    rc, name = case.rc, case.job
    look = (
        f"Ask the state of the job first: gpuguard jobs show {name}; if it is gone: gpuguard "
        f"restore {name}."
    )
    if rc in (-9, -15, -1, 137, 143):
        return Finding(
            "criu_killed",
            f"CRIU was killed in the middle (rc {rc}) and told no cause; by hand, by the memory "
            "killer or with its login.",
            f"{look} See dmesg for an out-of-memory kill; remove drop rules that it left (nft "
            "list tables: inet CRIU-…).",
        )
    if rc in (-6, -11, 134, 139):
        return Finding(
            "criu_crashed",
            f"CRIU crashed (rc {rc}) and told no cause; at a restore a missing or damaged image "
            "file (pstree.img) does this.",
            f"Check the image: gpuguard checkpoints verify {name}. {look}",
            "medium",
        )
    if rc == 255:
        return Finding(
            "hook_refused",
            "The hook at the end of the dump refused the image (rc 255); the job runs on.",
            f"See the hook's reason in the log, then: gpuguard checkpoint {name}.",
            "medium",
        )
    return None


def page_server_silent(case: Case) -> Optional[Finding]:
    """Tell a failed dump without any cause in its log while a page server was to be used."""
    server = first(case.context, "page_server")
    if not server or case.rc == 0:
        return None
    return Finding(
        "page_server_unreachable",
        f"The dump failed without a cause in its log; it was to send pages to the page server "
        f"{show(server)}, which does not answer.",
        "Start the page server and check host, port and firewall, then: gpuguard checkpoint "
        f"{case.job}.",
        "medium",
    )


Outcome = Callable[[Case], Optional[Finding]]
AFTER_SUCCESS: tuple[Outcome, ...] = (
    left_suspended,
    gpu_memory_missing,
    plugin_switched_off,
    died_afterwards,
)
AFTER_FAILURE: tuple[Outcome, ...] = (waits_for_lock, pages_cut, page_server_silent, criu_ended)
