"""What the result codes of the CUDA driver's checkpoint calls mean, apart from time and memory."""

from gpuguard.checkpoint.diagnoses.facts import first, show
from gpuguard.checkpoint.diagnoses.rules import Explain, Finding, Sight, fill, job, told


def _unsupported(sight: Sight) -> Finding:
    arch = str(first(sight.context, "arch", "machine") or "")
    uses = first(sight.context, "features", "uses", "feature")
    reason = (
        f"the driver cannot do it on {arch} (only x86-64)"
        if arch in ("aarch64", "arm64")
        else "a feature in use by the job stands against it"
        + (f": {show(uses)}" if uses else " (managed memory, CUDA IPC, MPS, MIG)")
    )
    return Finding(
        "cuda_checkpoint_not_supported",
        fill("The CUDA driver refused to {action} {task} as not supported: ", sight) + reason + ".",
        "Start the job without that feature or on another kind of host, or use checkpoints of the "
        f"application; then: gpuguard checkpoint {job(sight)}.",
    )


_STATE = "See what state each process has (cuda-checkpoint --get-state --pid {pid}). "
OTHER = told(
    "cuda_step_failed",
    "The CUDA driver failed to {action} {task}: {problem}.",
    _STATE + "CHECKPOINTED needs restore, then unlock; LOCKED needs unlock. Then: gpuguard jobs "
    "show {job}.",
    "medium",
)
BY_PROBLEM: dict[str, Explain] = {
    "unsupported": _unsupported,
    "system": told(
        "cuda_call_refused_by_host",
        "The CUDA driver could not {action} {task} ({problem}; code 304): rights, namespaces or "
        "host memory stand in the way, or the GPU's own process was ruined by an earlier failure.",
        "Call it as root from the host's pid namespace, look at memory.max of the job's cgroup and "
        "at seccomp profiles that block ptrace. " + _STATE + "Then: gpuguard doctor {HOST}.",
        "medium",
    ),
    "state": told(
        "cuda_wrong_state",
        "{task} is not in the state that {action} needs ({problem}; code 401): a step was done "
        "out of order, or an earlier failed one ruined the process on the GPU.",
        _STATE + "CHECKPOINTED needs restore, LOCKED needs unlock; if it answers neither, restore "
        "from the last checkpoint: gpuguard restore {job}.",
    ),
    "forbidden": told(
        "cuda_not_permitted",
        "The CUDA driver did not permit to {action} {task} ({problem}): it needs root, ptrace "
        "rights over the process, and no profiler attached.",
        "Run as root in the host's pid namespace, detach profilers, then: gpuguard doctor {HOST}.",
    ),
    "uninitialised": told(
        "not_a_cuda_process",
        "{task} has no CUDA state that the driver could {action} ({problem}): no CUDA process, "
        "already gone, or the driver is not up.",
        "Check nvidia-smi and the pid (the thread-group leader, not a thread), then: gpuguard jobs "
        "show {job}.",
    ),
    "context": told(
        "cuda_context_invalid",
        "The CUDA context of {task} is not valid any more ({problem}), so the driver cannot "
        "{action} it; an earlier GPU error in the job is the usual reason.",
        "Look for Xid lines: gpuguard xid, then restore from the last checkpoint: gpuguard restore "
        "{job}.",
    ),
    "value": told(
        "gpu_map_incomplete",
        "The CUDA driver refused the GPU map for {task} ({problem}): every GPU that the process "
        "could see must be in the list, also those it does not use, each mapped to one of the same "
        "type with enough memory.",
        "Give a pair old UUID=new UUID for every GPU of the source (--device-map, driver 580 or "
        "newer); leave the map away if the UUIDs are equal. Restore all, then unlock all: gpuguard "
        "restore {job}.",
    ),
    "died": told(
        "process_died_in_cuda_call",
        "{task} died while the CUDA driver tried to {action} it ({problem}); driver 610.57.04 is "
        "known for it.",
        "The running copy is lost; restore from the last checkpoint: gpuguard restore {job}, and "
        "look at the driver version: gpuguard doctor {HOST}.",
    ),
}
