"""Causes found in lines about device files, device mappings and CRIU's CUDA plugin."""

from typing import Optional

from gpuguard.checkpoint.diagnoses.facts import entries, first, number, older, show
from gpuguard.checkpoint.diagnoses.rules import Finding, Sight, fill, job, rule, told

_GPU = r"driver|cuda|plugin|gpu|fd|map|criu"
_NVIDIA_MAJOR = "195"


def _descriptor_target(sight: Sight) -> Optional[str]:
    fd = sight.fd()
    for entry in entries(sight.context, "fds", "descriptors", "open_files"):
        if number(entry.get("fd")) == fd is not None:
            return show(entry.get("target") or entry.get("path"))
    return None


def _device(sight: Sight) -> Finding:
    target = _descriptor_target(sight)
    nvidia = sight.groups["major"] == _NVIDIA_MAJOR or "nvidia" in (target or "")
    return _nvidia_device(sight, target) if nvidia else _other_device(sight, target)


def _device_name(sight: Sight) -> str:
    if sight.groups["major"] != _NVIDIA_MAJOR:
        return "an nvidia device"
    minor = sight.groups["minor"]
    return {
        "255": "the nvidia control device (/dev/nvidiactl)",
        "254": "the nvidia modeset device",
    }.get(minor or "", f"the nvidia device of GPU minor {minor}")


def _nvidia_device(sight: Sight, target: Optional[str]) -> Finding:
    number_pair = fill("chr {major}:{minor}", sight)
    why = (
        fill(
            "With {driver}, older than 570, the usual reason is NVML (the management library) "
            "inside the process, which keeps it open",
            sight,
        )
        if older(sight.context.get("driver"), (570,))
        else "Either CUDA was not suspended, or this is a forked worker (such as a data loader's) "
        "that inherited the descriptor without CUDA state of its own"
    )
    return Finding(
        "nvidia_device_still_open",
        fill("{task} still has ", sight)
        + f"{_device_name(sight)} open (fd {sight.fd()}, {target or number_pair}"
        + (f", {number_pair}" if target else "")
        + "), which is not part of the suspended CUDA "
        f"state. {why}.",
        "Needs driver 570 or newer (NVML may then stay open) with CRIU 4.0 or newer; suspend CUDA "
        "in every process first, and end forked workers before the checkpoint (spawn instead of "
        "fork). See that no process is left suspended on the GPU (cuda-checkpoint --get-state "
        f"--pid PID), then: gpuguard checkpoint {job(sight)}.",
    )


def _other_device(sight: Sight, target: Optional[str]) -> Finding:
    return Finding(
        "device_not_supported",
        fill("{task} has a device open (fd {fd}, ", sight)
        + (f"{target}, " if target else "")
        + fill("chr {major}:{minor}) that CRIU cannot save.", sight),
        "Close that device in the job or start it without, then: gpuguard checkpoint "
        f"{job(sight)}.",
    )


def _mapping(sight: Sight) -> Finding:
    if "io_uring" in show(sight.context.get("maps")):
        return _IO_URING(sight)
    state = first(sight.context, "cuda_state")
    plugin = first(sight.context, "plugin_loaded")
    seen = f" (CUDA state: {show(state)})" if state is not None else ""
    old = (
        fill(" {driver} is older than 570 and cannot lock and checkpoint as separate steps.", sight)
        if older(sight.context.get("driver"), (570,))
        else ""
    )
    missing = " CRIU had no CUDA plugin loaded." if plugin is False else ""
    return Finding(
        "cuda_not_suspended",
        fill("{task} still has GPU memory mapped: CUDA was not suspended before the dump", sight)
        + f"{seen}.{old}{missing}",
        "Needs driver 570 or newer (555 at the very least); suspend CUDA first (lock, then "
        f"checkpoint), which gpuguard does itself: gpuguard checkpoint {job(sight)}. With CRIU's "
        "own plugin: put cuda_plugin.so into the folder that this build searches, or name it with "
        "--libdir.",
    )


_IO_URING = told(
    "io_uring",
    "{task} uses io_uring, which no release of CRIU can save. The job goes on undisturbed.",
    "Nothing can be done for the running process. At its next start (restart it when it suits) "
    "disable io_uring: UV_USE_IO_URING=0 for libuv and node, USE_LIBUV=0 for PyTorch's store, or "
    "block the setup call by a seccomp profile, or sysctl kernel.io_uring_disabled=2. Then: "
    "gpuguard checkpoint {job}.",
)

_ANON = told(
    "kernel_object_not_supported",
    "{task} has a kernel object open that CRIU cannot save: {name} (a profiler, tracer or "
    "monitoring agent inside the process, for example perf_event, bpf or userfaultfd).",
    "Stop the profiler or agent that lives in the process, or start the job without it, then: "
    "gpuguard checkpoint {job}.",
)

RULES = (
    rule(r"\[io_uring\]", _IO_URING, r"maps?$"),
    rule(
        r"Can't dump file (?P<fd>\d+) of that type.*anon_inode:(?P<name>[^\s)]+)",
        _ANON,
        r"fd|agent",
    ),
    rule(
        r"Can't dump file (?P<fd>\d+) of that type.*\(chr (?P<major>\d+):(?P<minor>\d+)\)",
        _device,
        _GPU + "|worker|parent",
    ),
    rule(
        r"Can't dump file (?P<fd>\d+) of that type (?P<kind>.*)",
        told(
            "file_type_not_supported",
            "{task} has a file open (fd {fd}, type {kind}) of a kind that CRIU cannot save.",
            "See what it is (ls -l /proc/{pid}/fd/{fd}), start the job without it, then: gpuguard "
            "checkpoint {job}.",
        ),
        r"fd",
    ),
    rule(
        r"handle_device_vma plugin failed|Can't handle non-regular mapping",
        _mapping,
        r"driver|cuda|plugin|gpu|map",
    ),
    rule(
        r"Unknown shit \w+ \((?P<name>[^)]*)\)",
        told(
            "mapping_not_supported",
            "{task} has something mapped that CRIU does not know: {name}.",
            "Start the job without the library or device that maps it, then: gpuguard checkpoint "
            "{job}.",
        ),
        r"maps?$",
    ),
    rule(
        r"Can't open (?P<pid>\d+)'s mapfile link",
        told(
            "mapping_not_supported",
            "{task} has something mapped that CRIU cannot look at (a device, or a kernel object).",
            "See /proc/{pid}/maps for what is no plain file, start the job without it, then: "
            "gpuguard checkpoint {job}.",
            "medium",
        ),
        r"maps?$",
    ),
    rule(
        r"Missing required plugin: (?P<plugin>\w+)",
        told(
            "plugin_missing",
            "The image was made with CRIU's plugin {plugin}, and the CRIU on {host} does not find "
            "that plugin.",
            "Install {plugin} there (same CRIU version) or name its folder with --libdir, then: "
            "gpuguard restore {job}.",
        ),
        _GPU + "|libdir|folder",
    ),
    rule(
        r"No GPU device found but the checkpoint requires",
        told(
            "no_gpu_on_host",
            "The image holds GPU state, and {host} has no NVIDIA GPU, or its driver is not loaded.",
            "Load the driver (modprobe nvidia, nvidia-smi) or restore on a host with the same GPU "
            "model and driver: gpuguard restore {job} --to HOST.",
        ),
        _GPU + "|host|destination|fleet",
    ),
    rule(
        r"r555 or (?:newer|higher)",
        told(
            "driver_too_old",
            "The NVIDIA driver of {host} ({driver}) is too old to lock and checkpoint CUDA as "
            "separate steps; 555 is the least, 570 is what GPU jobs need.",
            "Install driver 570 or newer on {host}, for a restore the same version as at the "
            "checkpoint; then: gpuguard doctor {HOST}.",
        ),
        _GPU + "|host|destination|fleet",
    ),
    rule(
        r"execvp\(\"?cuda-checkpoint\"?\) failed|cuda-checkpoint.*(?:not found|No such file)"
        r"|Failed to run cuda-checkpoint|cuda-checkpoint is (?:present in|required to restore)",
        told(
            "cuda_checkpoint_tool_missing",
            "The tool cuda-checkpoint was not found or could not be started on {host}, so nothing "
            "of the GPU's state was saved or resumed.",
            "Install cuda-checkpoint on the PATH of root (it comes with the driver from 570 on), "
            "then: gpuguard doctor {HOST}.",
        ),
        _GPU + "|path",
    ),
)
