"""Fleets and stores as they may be seen."""

from typing import Any

from gpuguard.model.jobs import Job, JobOrigin, JobPolicy, JobSpec, JobState
from gpuguard.model.manifests import CheckpointInfo, Manifest, ProcessRecord, Times
from gpuguard.planning.views import EpochHolder, FleetView, HostFacts, HostView, StoreView

STORE = "/srv/gpuguard"
AT = "2026-01-31T12:04:31Z"


def job(state: JobState = JobState.RUNNING, **changes: Any) -> Job:
    values: dict[str, Any] = {
        "spec": JobSpec("llm", uid="u-1", command=("train",)),
        "origin": JobOrigin.LAUNCHED,
        "state": state,
        "epoch": 1,
        "boot_id": "boot-1",
        "policy": JobPolicy(store=STORE),
        **changes,
    }
    return Job(**values)


def facts(**changes: Any) -> HostFacts:
    values: dict[str, Any] = {
        "boot_id": "boot-1",
        "kernel": "6.1.0-18-amd64",
        "arch": "x86_64",
        "criu": "4.2.1",
        "cpu_flags": ("avx", "sse4_2"),
        "memory_total": 8 << 30,
        "memory_available": 4 << 30,
        **changes,
    }
    return HostFacts(**values)


def host(name: str, *jobs: Job, **changes: Any) -> HostView:
    return HostView(name, True, facts=facts(**changes), jobs=jobs)


def silent(name: str) -> HostView:
    return HostView(name, False, problem="no answer within 5 s")


def fleet(*views: HostView) -> FleetView:
    return FleetView({view.name: view for view in views})


def info(checkpoint: str = "20260131T120000Z-aaaaaa", **changes: Any) -> CheckpointInfo:
    values: dict[str, Any] = {
        "checkpoint": checkpoint,
        "job": "llm",
        "uid": "u-1",
        "host": "gpu001",
        "epoch": 1,
        "sequence": 1,
        "frozen": "2026-01-31T12:00:00Z",
        "durable": "2026-01-31T12:00:05Z",
        "bytes": 1 << 20,
        "path": f"{STORE}/llm/{checkpoint}",
        "state": "durable",
        **changes,
    }
    return CheckpointInfo(**values)


def manifest(**changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "checkpoint": "20260131T120000Z-aaaaaa",
        "job": JobSpec("llm", uid="u-1"),
        "origin": JobOrigin.LAUNCHED,
        "host": "gpu001",
        "epoch": 1,
        "sequence": 1,
        "namespace_pid": 2,
        "shell_job": False,
        "criu_options": (),
        "times": Times("2026-01-31T12:00:00Z", "2026-01-31T12:00:01Z"),
        "bytes": 1 << 20,
        "files": (),
        "tree": (ProcessRecord(2, 1, 1, "train", "/", "/bin/train", 1 << 30),),
        "open_files": (),
        "versions": {"criu": "4.2.1", "kernel": "6.1.0-18-amd64", "arch": "x86_64"},
        "cpu_flags": ("avx",),
        **changes,
    }
    return Manifest(**values)


def holder(name: str = "gpu001", epoch: int = 1) -> EpochHolder:
    return EpochHolder(epoch, name, "u-1", AT)


def store(*infos: CheckpointInfo, sees: tuple[str, ...] = (), **changes: Any) -> StoreView:
    values: dict[str, Any] = {
        "path": STORE,
        "checkpoints": infos,
        "holder": holder(),
        "manifest": manifest(),
        "sees": dict.fromkeys(sees or ("gpu001", "gpu002", "gpu003"), True),
        **changes,
    }
    return StoreView(**values)
