"""Cordons from the operator's side: remembered, owned, told later."""

from pathlib import Path

import pytest

from gpuguard.model.cordons import Cordon
from gpuguard.model.errors import RefusedError, UnreachableError
from gpuguard.planning.requests import MigrateRequest
from gpuguard.running import migrate
from gpuguard.running.cordons import book_of, cordon_host, uncordon_host
from gpuguard.running.ids import asked_by
from gpuguard.running.locating import locate
from tests.unit.running.desks import desk_of, running_job
from tests.unit.running.nodes import Node

BOB = Cordon("b1", "bob@elsewhere", "mine", "2026-01-31T12:01:00Z")


def test_a_cordoned_host_is_neither_chosen_nor_taken(tmp_path: Path) -> None:
    nodes = [Node("gpu001", jobs=[running_job()]), Node("gpu002"), Node("gpu003")]
    desk, _ = desk_of(tmp_path, nodes)
    for node in nodes:
        node.info["memory_available"] = (8 if node.name == "gpu002" else 4) << 30
    assert cordon_host(desk, "gpu002", "fan").state == "cordoned"
    assert migrate.prepare(desk, MigrateRequest("llm")).params["target"] == "gpu003"
    refused = migrate.prepare(desk, MigrateRequest("llm", to="gpu002"))
    (finding,) = [one for one in refused.findings if one.level.value == "error"]
    assert "fan" in finding.text
    assert finding.remedy == "gpuguard uncordon gpu002"
    assert uncordon_host(desk, "gpu002", None).state == "uncordoned"
    assert migrate.prepare(desk, MigrateRequest("llm")).params["target"] == "gpu002"


def test_a_silent_host_hears_of_it_at_the_next_contact(tmp_path: Path) -> None:
    node = Node("gpu001")
    desk, heard = desk_of(tmp_path, [node])
    node.dead = True
    assert cordon_host(desk, "gpu001", "dead").state == "remembered"
    assert [one.reason for one in locate(desk).hosts["gpu001"].cordons] == ["dead"]
    node.dead = False
    assert [one.reason for one in locate(desk).hosts["gpu001"].cordons] == ["dead"]
    assert node.cordon_owners == [asked_by()]
    assert "now told: set" in heard[-1].text
    node.dead = True
    assert uncordon_host(desk, "gpu001", None).state == "remembered"
    assert book_of(desk).get("gpu001").standing == ()
    node.dead = False
    assert locate(desk).hosts["gpu001"].cordons == ()
    assert node.cordon_owners == []
    assert book_of(desk).get("gpu001").ours is None


def test_anothers_cordon_stays_unless_its_owner_is_named(tmp_path: Path) -> None:
    node = Node("gpu001")
    desk, _ = desk_of(tmp_path, [node])
    node.info["cordons"] = [BOB.to_dict()]
    cordon_host(desk, "gpu001", "ours too")
    with pytest.raises(RefusedError, match="bob@elsewhere") as caught:
        uncordon_host(desk, "gpu001", None)
    assert "--force bob@elsewhere" in (caught.value.hint or "")
    assert node.cordon_owners == ["bob@elsewhere"]
    uncordon_host(desk, "gpu001", "bob@elsewhere")
    assert node.cordon_owners == []
    with pytest.raises(UnreachableError):
        node.dead = True
        uncordon_host(desk, "gpu001", None)


def test_a_cordon_that_somebody_else_lifted_is_forgotten_and_said(tmp_path: Path) -> None:
    node = Node("gpu001")
    desk, heard = desk_of(tmp_path, [node])
    cordon_host(desk, "gpu001", "")
    node.info["cordons"] = []
    assert locate(desk).hosts["gpu001"].cordons == ()
    assert "by somebody else" in heard[-1].text
    assert book_of(desk).get("gpu001").ours is None
