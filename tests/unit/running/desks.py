"""Jobs, checkpoints and desks over scripted nodes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from gpuguard.model.errors import (
    BusyError,
)
from gpuguard.model.inventory import Host, Inventory, Policy, Power, StoreSpec
from gpuguard.model.jobs import Job, JobOrigin, JobPolicy, JobSpec, JobState, ProcessRef
from gpuguard.model.manifests import CheckpointInfo
from gpuguard.running.desk import Desk, Progress
from gpuguard.state.operations import Operations
from tests.unit.planning.sights import manifest
from tests.unit.running.nodes import Node, NodePool, Stopwatch

STORE = "/srv/gpuguard"


def running_job(name: str = "llm", **changes: Any) -> Job:
    """A job that runs, with a store."""
    values: dict[str, Any] = {
        "spec": JobSpec(name, uid="u-1", command=("train",)),
        "origin": JobOrigin.LAUNCHED,
        "state": JobState.RUNNING,
        "epoch": 1,
        "boot_id": "boot-of-gpu001",
        "root": ProcessRef(4711, 99),
        "policy": JobPolicy(store=STORE),
        **changes,
    }
    return Job(**values)


def saved(checkpoint: str = "20260131T120000Z-aaaaaa", **changes: Any) -> CheckpointInfo:
    """A durable checkpoint of the job."""
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


def desk_of(tmp_path: Path, nodes: list[Node]) -> tuple[Desk, list[Progress]]:
    """A desk over `nodes`, and the list that collects its progress."""
    heard: list[Progress] = []
    clock = Stopwatch()
    inventory = Inventory(
        path=str(tmp_path / "inventory.yaml"),
        hosts={node.name: Host(node.name, "198.18.0.11") for node in nodes},
        stores={"shared": StoreSpec("shared", STORE)},
        policies={"default": Policy("default", store="shared")},
    )
    operations = Operations(tmp_path / "operations.sqlite3", clock)
    pool = NodePool(nodes)
    return Desk(inventory, pool, operations, clock, heard.append, patience=30.0), heard


def busy() -> BusyError:
    """The refusal of a node whose job is held."""
    return BusyError("gpu001: job llm is held by procedure x since 12:00")


def silent_fleet(tmp_path: Path, power: Power | None = None) -> tuple[list[Node], Desk]:
    lost = dataclasses.replace(running_job(), state=JobState.LOST)
    nodes = [Node("gpu001", None, [lost]), Node("gpu002")]
    for node in nodes:
        node.checkpoints = [saved()]
        node.manifest = manifest().to_dict()
        node.epoch = {"epoch": 1, "host": "gpu001", "uid": "u-1", "at": "2026-01-31T12:00:00Z"}
    nodes[0].dead = True
    desk, _ = desk_of(tmp_path, nodes)
    known = dict(desk.inventory.hosts)
    known["gpu001"] = dataclasses.replace(known["gpu001"], power=power)
    return nodes, dataclasses.replace(
        desk, inventory=dataclasses.replace(desk.inventory, hosts=known)
    )


def proof_of(nodes: list[Node]) -> dict[str, Any]:
    proof: dict[str, Any] = next(iter(nodes[1].procedures.values())).request["params"]["proof"]
    return proof
