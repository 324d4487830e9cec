"""A site's own command for cordons: what it is given, and what its answer counts."""

import dataclasses
from pathlib import Path

import pytest

from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import CordonHook
from gpuguard.running.cordons import cordon_host, uncordon_host
from gpuguard.running.desk import Desk
from gpuguard.running.ids import asked_by
from gpuguard.running.locating import locate
from tests.unit.running.desks import desk_of
from tests.unit.running.nodes import Node


def hooked(desk: Desk, **words: tuple[str, ...]) -> Desk:
    inventory = dataclasses.replace(desk.inventory, cordon=CordonHook(**words))
    return dataclasses.replace(desk, inventory=inventory)


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
    assert node.cordon_owners == [asked_by()]
    with pytest.raises(GpuguardError, match="cannot be started"):
        uncordon_host(hooked(desk, lift=("/nowhere/tool",)), "gpu001", None)
    uncordon_host(desk, "gpu001", None)
    assert node.cordon_owners == []


@pytest.mark.parametrize(("code", "word"), [(0, "drained"), (1, None), (7, "unknown")])
def test_what_the_site_says_counts_and_unknown_is_no_yes(
    tmp_path: Path, code: int, word: str | None
) -> None:
    desk, _ = desk_of(tmp_path, [Node("gpu001")])
    desk = hooked(desk, status=("sh", "-c", f"echo drained; exit {code}"))
    cordons = locate(desk).hosts["gpu001"].cordons
    assert [one.owner for one in cordons] == ([] if word is None else ["site"])
    assert word is None or word in cordons[0].reason
