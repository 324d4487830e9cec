"""Starting jobs and finding them again."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from gpuguard.model.errors import GpuguardError, RefusedError, UnreachableError, UsageError
from gpuguard.model.inventory import JobEntry
from gpuguard.model.jobs import JobState
from gpuguard.running.desk import Desk
from gpuguard.running.jobs import Launch, find, launch
from gpuguard.running.listing import list_jobs
from tests.unit.running.desks import desk_of, running_job, saved
from tests.unit.running.nodes import Node, NodeSession


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def answer(self: NodeSession, **params: Any) -> Any:
        calls.append(params)
        return running_job(params["spec"]["name"]).to_dict()

    monkeypatch.setattr(NodeSession, "_jobs_run", answer, raising=False)
    monkeypatch.setattr(NodeSession, "_jobs_adopt", answer, raising=False)
    return calls


def known(desk: Desk) -> Desk:
    entry = JobEntry("llm", "gpu002", command=("train", "-x"), cwd="/srv", env={"A": "1", "B": "2"})
    return dataclasses.replace(
        desk, inventory=dataclasses.replace(desk.inventory, jobs={"llm": entry})
    )


def test_the_inventorys_entry_fills_what_the_line_leaves_out(
    tmp_path: Path, started: list[dict[str, Any]]
) -> None:
    desk, _ = desk_of(tmp_path, [Node("gpu001"), Node("gpu002")])
    host, _ = launch(known(desk), Launch("llm", env={"B": "3"}))
    spec = started[0]["spec"]
    assert host == "gpu002"
    assert (spec["command"], spec["cwd"]) == (["train", "-x"], "/srv")
    assert spec["env"] == {"A": "1", "B": "3"}
    assert started[0]["policy"]["store"] == "/srv/gpuguard"
    assert started[0]["request_id"] == spec["uid"]


def test_a_job_without_a_store_starts_with_a_warning_that_names_the_file(
    tmp_path: Path, started: list[dict[str, Any]]
) -> None:
    desk, heard = desk_of(tmp_path, [Node("gpu001")])
    bare = dataclasses.replace(desk.inventory, stores={}, policies={})
    desk = dataclasses.replace(desk, inventory=bare)
    launch(desk, Launch("llm", "gpu001", command=("train",)))
    assert started
    (warning,) = [item for item in heard if item.state == "warning"]
    assert warning.text.startswith("no store: nothing can be saved; add stores: ")
    assert bare.path in warning.text


def test_an_adopted_process_needs_no_command(tmp_path: Path, started: list[dict[str, Any]]) -> None:
    desk, _ = desk_of(tmp_path, [Node("gpu001")])
    launch(desk, Launch("guest", "gpu001", pid=4711))
    assert started[0]["pid"] == 4711


@pytest.mark.parametrize(
    "wish",
    [
        Launch("llm"),
        Launch("llm", "gpu001"),
        Launch("llm", "gpu009", ("x",)),
        Launch("../up", "gpu001", ("x",)),
        Launch("llm", "gpu001", ("x",), policy="none-such"),
    ],
)
def test_what_the_line_lacks_is_a_usage_error(tmp_path: Path, wish: Launch) -> None:
    desk, _ = desk_of(tmp_path, [Node("gpu001")])
    with pytest.raises(UsageError):
        launch(desk, wish)


def test_a_name_in_use_elsewhere_is_refused(tmp_path: Path) -> None:
    desk, _ = desk_of(tmp_path, [Node("gpu001"), Node("gpu002", None, [running_job()])])
    with pytest.raises(RefusedError, match="gpu002: a job llm is running there"):
        launch(desk, Launch("llm", "gpu001", ("x",)))


def test_a_name_kept_in_the_store_is_refused(tmp_path: Path) -> None:
    node = Node("gpu001")
    node.checkpoints = [saved()]
    desk, _ = desk_of(tmp_path, [node])
    with pytest.raises(RefusedError, match="keeps 1 checkpoints of an earlier job llm"):
        launch(desk, Launch("llm", "gpu001", ("x",)))


def test_a_store_out_of_reach_is_a_warning(
    tmp_path: Path, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(self: NodeSession, **params: Any) -> Any:
        raise GpuguardError("the store /srv/gpuguard cannot be used")

    monkeypatch.setattr(NodeSession, "_store_list", gone)
    desk, heard = desk_of(tmp_path, [Node("gpu001")])
    launch(desk, Launch("llm", "gpu001", ("x",)))
    assert [p.state for p in heard] == ["warning"]


def test_a_job_is_found_among_its_old_places(tmp_path: Path) -> None:
    moved = dataclasses.replace(running_job(), state=JobState.MOVED)
    nodes = [Node("gpu001", None, [moved]), Node("gpu002", None, [running_job(epoch=2)])]
    desk, _ = desk_of(tmp_path, nodes)
    assert find(desk, "llm").host == "gpu002"
    assert find(desk, "llm", "gpu001").job.state is JobState.MOVED


def test_two_live_copies_are_reported(tmp_path: Path) -> None:
    nodes = [Node("gpu001", None, [running_job()]), Node("gpu002", None, [running_job(epoch=2)])]
    desk, _ = desk_of(tmp_path, nodes)
    with pytest.raises(RefusedError, match="more than one host reports a live copy"):
        find(desk, "llm")


def test_a_job_nobody_knows_may_be_on_a_silent_host(tmp_path: Path) -> None:
    nodes = [Node("gpu001"), Node("gpu002")]
    desk, _ = desk_of(tmp_path, nodes)
    with pytest.raises(UsageError, match="no host knows"):
        find(desk, "llm")
    nodes[1].dead = True
    with pytest.raises(UnreachableError, match="gpu002"):
        find(desk, "llm")


@pytest.mark.parametrize(("dead", "code"), [([], 0), (["gpu001"], 3), (["gpu001", "gpu002"], 4)])
def test_a_list_says_how_much_of_the_fleet_it_is(
    tmp_path: Path, dead: list[str], code: int
) -> None:
    nodes = [Node("gpu001", None, [running_job()]), Node("gpu002")]
    for node in nodes:
        node.dead = node.name in dead
    desk, _ = desk_of(tmp_path, nodes)
    seen = list_jobs(desk, None)
    assert seen.exit_code == code
    assert [error["host"] for error in seen.errors] == dead
