"""Out of memory in a CUDA step: at restore the GPU was full, at checkpoint the host (or MIG)."""

from collections.abc import Mapping
from typing import Any, Optional

from gpuguard.checkpoint.diagnoses.facts import entries, first, number, show
from gpuguard.checkpoint.diagnoses.rules import Finding, Sight, fill, job


def gpu_memory_full(sight: Sight) -> Finding:
    """Tell that the GPU had no room at the resume, and that the process is lost by it."""
    numbers = _gpu_numbers(sight.context)
    image = newest_image(sight.context)
    last = "the last checkpoint"
    if sight.case.verdict == "dump_ok":
        last = "the checkpoint, which is good: CRIU had finished it"
    return Finding(
        "gpu_memory_full_at_restore",
        fill("There was not enough GPU memory to resume {task}", sight)
        + f"{numbers}. After this first failure the process cannot be resumed any more"
        + fill(
            " on {driver}, also with the memory free again; later codes (304, 401) are only "
            "consequences.",
            sight,
        ),
        "Free the GPU (gpuguard holders names who uses it), end this process, and restore from "
        + (
            f"the image {image}: gpuguard restore {job(sight)} --from {image}"
            if image
            else f"{last}: gpuguard restore {job(sight)}"
        )
        + ". No retry of the resume helps. Compare free GPU memory with the recorded need before "
        "any resume.",
    )


def _gpu_numbers(context: Mapping[str, Any]) -> str:
    block = first(context, "gpu_memory_mib", "gpu_memory")
    block = block if isinstance(block, Mapping) else {}
    needed = number(block.get("needed") or first(context, "needed_mib", "gpu_memory_needed_mib"))
    free = number(block.get("free") if "free" in block else first(context, "free_mib"))
    parts = [f"needs {_mib(needed)}" if needed is not None else "", _free(free)]
    told = ", ".join(part for part in parts if part)
    return f" ({told})" if told else ""


def _free(free: Optional[int]) -> str:
    return f"{_mib(free)} free" if free is not None else ""


def _mib(count: int) -> str:
    return f"{count} MiB" + (f" ({count // 1024} GiB)" if count and count % 1024 == 0 else "")


def newest_image(context: Mapping[str, Any]) -> Optional[str]:
    """Return the id of the first checkpoint in the context that is not known to be unverified."""
    for entry in entries(context, "images", "checkpoints"):
        if entry.get("verified", True) and entry.get("id"):
            return show(entry["id"])
    value = first(context, "last_checkpoint", "checkpoint", "image")
    value = value.get("id") if isinstance(value, Mapping) else value
    return show(value) if isinstance(value, str) else None


def memory_at_checkpoint(sight: Sight) -> Finding:
    """Tell MIG (which always fails so) from a host without room for the GPU's memory."""
    mig = first(sight.context, "mig", "mig_mode", "mig_enabled")
    if mig and str(mig).lower() not in ("off", "disabled", "false"):
        return Finding(
            "mig_not_supported",
            fill(
                "{task} runs on a MIG slice, and the CUDA driver cannot checkpoint MIG: it says "
                "'{problem}' although memory is not the reason.",
                sight,
            ),
            "Run the job on a whole GPU (MIG off) or use checkpoints of the application. Unlock "
            "what is locked (cuda-checkpoint --action unlock --pid PID), then: gpuguard doctor "
            f"--job {job(sight)}.",
        )
    needed, free = _host_numbers(sight.context)
    return Finding(
        "host_memory_full_at_checkpoint",
        fill(
            "The CUDA driver had no memory to {action} {task} ({problem}): the GPU's memory is "
            "copied into host memory of the process",
            sight,
        )
        + f"{needed}{free}. MIG slices give the same error.",
        "Free host memory or raise memory.max of the job's cgroup, unlock what is locked "
        "(cuda-checkpoint --action unlock --pid PID), then: gpuguard checkpoint "
        f"{job(sight)}.",
        "medium",
    )


def _host_numbers(context: Mapping[str, Any]) -> tuple[str, str]:
    needed = first(context, "needed_mib", "needed")
    free = first(context, "free_mib", "free", "memory_available", "available_mib", "memory_max")
    return (
        f", needed {show(needed)}" if needed is not None else "",
        f", free {show(free)}" if free is not None else "",
    )
