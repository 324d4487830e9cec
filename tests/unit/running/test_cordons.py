"""Cordons from the operator's side: remembered, owned, told later, tied to a site's command."""

import dataclasses
from pathlib import Path

import pytest

from gpuguard.model.cordons import Cordon
from gpuguard.model.errors import GpuguardError, RefusedError, UnreachableError
from gpuguard.model.inventory import CordonHook
from gpuguard.planning.requests import MigrateRequest
from gpuguard.running import migrate
from gpuguard.running.cordons import book_of, cordon_host, uncordon_host
from gpuguard.running.desk import Desk
from gpuguard.running.ids import asked_by
from gpuguard.running.locating import locate
from tests.unit.running.nodes import Node, desk_of, running_job

BOB = Cordon("b1", "bob@elsewhere", "mine", "2026-01-31T12:01:00Z")


def hooked(desk: Desk, **words: tuple[str, ...]) -> Desk:
    inventory = dataclasses.replace(desk.inventory, cordon=CordonHook(**words))
    return dataclasses.replace(desk, inventory=inventory)


def owners(node: Node) -> list[str]:
    return [one["owner"] for one in node.info["cordons"]]


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
    assert owners(node) == [asked_by()]
    assert "now told: set" in heard[-1].text
    node.dead = True
    assert uncordon_host(desk, "gpu001", None).state == "remembered"
    assert book_of(desk).get("gpu001").standing == ()
    node.dead = False
    assert locate(desk).hosts["gpu001"].cordons == ()
    assert owners(node) == []
    assert book_of(desk).get("gpu001").ours is None


def test_anothers_cordon_stays_unless_its_owner_is_named(tmp_path: Path) -> None:
    node = Node("gpu001")
    desk, _ = desk_of(tmp_path, [node])
    node.info["cordons"] = [BOB.to_dict()]
    cordon_host(desk, "gpu001", "ours too")
    with pytest.raises(RefusedError, match="bob@elsewhere") as caught:
        uncordon_host(desk, "gpu001", None)
    assert "--force bob@elsewhere" in (caught.value.hint or "")
    assert owners(node) == ["bob@elsewhere"]
    uncordon_host(desk, "gpu001", "bob@elsewhere")
    assert owners(node) == []
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


def test_the_sites_command_gets_host_and_reason_unsplit(tmp_path: Path) -> None:
    desk, _ = desk_of(tmp_path, [Node("gpu001")])
    out = tmp_path / "said"
    script = 'printf "%s|" "$@" > "$0"'
    words = ("sh", "-c", script, str(out), "{host}", "x {reason}")
    cordon_host(hooked(desk, set=words), "gpu001", "fan 'n' $(id)")
    assert out.read_text() == "gpu001|x fan 'n' $(id)|"


def test_a_failing_command_is_no_success_and_the_host_stays_cordoned(tmp_path: Path) -> None:
    node = Node("gpu001")
    desk, _ = desk_of(tmp_path, [node])
    bad = ("sh", "-c", "echo no such node >&2; exit 3")
    with pytest.raises(GpuguardError, match="ended with 3: no such node"):
        cordon_host(hooked(desk, set=bad), "gpu001", "")
    with pytest.raises(GpuguardError, match="no such node"):
        uncordon_host(hooked(desk, lift=bad), "gpu001", None)
    assert owners(node) == [asked_by()]
    with pytest.raises(GpuguardError, match="cannot be started"):
        uncordon_host(hooked(desk, lift=("/nowhere/tool",)), "gpu001", None)
    uncordon_host(desk, "gpu001", None)
    assert owners(node) == []


@pytest.mark.parametrize(("code", "word"), [(0, "drained"), (1, None), (7, "unknown")])
def test_what_the_site_says_counts_and_unknown_is_no_yes(
    tmp_path: Path, code: int, word: str | None
) -> None:
    desk, _ = desk_of(tmp_path, [Node("gpu001")])
    desk = hooked(desk, status=("sh", "-c", f"echo drained; exit {code}"))
    cordons = locate(desk).hosts["gpu001"].cordons
    assert [one.owner for one in cordons] == ([] if word is None else ["site"])
    assert word is None or word in cordons[0].reason
