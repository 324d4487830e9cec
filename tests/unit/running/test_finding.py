"""Finding a job beside hosts that do not answer."""

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuguard.model.errors import RefusedError, UnreachableError
from gpuguard.model.inventory import Host
from gpuguard.remote.outcome import Outcome
from gpuguard.running import finding
from gpuguard.running.desk import Desk
from gpuguard.running.finding import look_up
from tests.unit.running.desks import desk_of, running_job
from tests.unit.running.nodes import Node, NodePool

GRACE = 0.1


def record(host: str) -> dict[str, Any]:
    return {"epoch": 1, "host": host, "uid": "u-1", "at": "2026-01-31T12:00:00Z"}


class Hanging(NodePool):
    """The last host does not answer before `let_go` is set."""

    let_go: threading.Event

    def map(
        self,
        hosts: Any,
        function: Callable[[Host, Any], Any],
        on_result: Callable[[Host, Outcome[Any]], None] | None = None,
    ) -> dict[str, Outcome[Any]]:
        *quick, last = hosts
        super().map(quick, function, on_result)
        self.let_go.wait(20)
        return super().map([last], function, on_result)


def hanging(tmp_path: Path, nodes: list[Node]) -> tuple[Desk, threading.Event]:
    desk, _ = desk_of(tmp_path, nodes)
    pool = Hanging(nodes)
    pool.let_go = threading.Event()
    return dataclasses.replace(desk, pool=pool), pool.let_go


@pytest.fixture(autouse=True)
def grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_GRACE", GRACE)


def test_the_holder_of_the_highest_epoch_is_not_kept_waiting(tmp_path: Path) -> None:
    nodes = [Node("gpu001", None, [running_job()]), Node("gpu002")]
    nodes[0].epoch = record("gpu001")
    desk, let_go = hanging(tmp_path, nodes)
    began = time.monotonic()
    found = look_up(desk, "llm")
    let_go.set()
    assert (found.place.host, found.silent) == ("gpu001", ("gpu002",))
    assert 0.9 * GRACE < time.monotonic() - began < 10


@pytest.mark.parametrize("held", [None, record("gpu002")])
def test_a_copy_that_may_be_old_waits_for_every_host(
    tmp_path: Path, held: dict[str, Any] | None
) -> None:
    nodes = [Node("gpu001", None, [running_job()]), Node("gpu002", None, [running_job(epoch=2)])]
    nodes[0].epoch = held
    desk, let_go = hanging(tmp_path, nodes)
    threading.Timer(3 * GRACE, let_go.set).start()
    with pytest.raises(RefusedError, match="more than one host"):
        look_up(desk, "llm")


def test_silent_hosts_are_named(tmp_path: Path) -> None:
    nodes = [Node("gpu001", None, [running_job()]), Node("gpu002")]
    nodes[1].dead = True
    desk, _ = desk_of(tmp_path, nodes)
    assert look_up(desk, "llm").silent == ("gpu002",)
    with pytest.raises(UnreachableError, match="gpu002"):
        look_up(desk, "other")
