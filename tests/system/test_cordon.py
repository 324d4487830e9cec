"""cordon and uncordon at the real command line, over real hosts, by two operators."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuguard.sandbox import fleet
from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.requirements import refusal
from tests.system.kit import Operator

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(400),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = fleet.up("cordon", hosts=3, root=tmp_path_factory.mktemp("fleet"))
    yield made
    made.down()


def test_cordons_hold_for_every_operator_and_through_a_lost_host(
    hosts: Sandbox, tmp_path: Path
) -> None:
    ann, bob = Operator(hosts, tmp_path / "ann"), Operator(hosts, tmp_path / "bob")
    ann.run("jobs", "run", "kept", "--host", "node1", "--", "steps", "--tick", "0.1")
    item = ann.run("cordon", "node2", "--reason", "fan 2", "-o", "json").json["items"][0]
    owner = item["cordons"][0]["owner"]
    assert item["state"] == "cordoned"

    # Another operator sees it, is refused, and is never sent there.
    refused = bob.run("migrate", "kept", "--to", "node2", "--yes", expect=5)
    assert "fan 2" in refused.err
    assert "gpuguard uncordon node2" in refused.err
    bob.run("jobs", "run", "more", "--host", "node2", "--", "steps", expect=5)
    found = bob.run("doctor", "node2", "-o", "json").json["items"]
    assert [one["remedy"] for one in found if one["code"] == "cordoned"]
    bob.run("checkpoint", "kept")
    shown = bob.try_("checkpoints", "show", "kept", bob.newest("kept"), "-o", "json").json
    verdict = next(one for one in shown["verdicts"] if one["host"] == "node2")
    assert "fan 2" in str(verdict)
    assert bob.run("inventory", "show", "node2", "-o", "json").json["items"][0]["cordons"]
    assert "node2" in ann.run("info").out

    # A host without power is remembered, and told when it is back.
    hosts.power("node3", "off")
    silent = ann.run("cordon", "node3", "--reason", "dead", "-o", "json", expect=3).json
    assert silent["items"][0]["state"] == "remembered"
    nowhere = ann.run("migrate", "kept", "--yes", expect=5)
    assert "node2: it is cordoned by" in nowhere.err
    hosts.power("node3", "on")
    ann.run("migrate", "kept", "--dry-run", expect=5)
    assert "dead" in hosts.path("node3", "/var/lib/gpuguard/cordon.json").read_text()

    # What another wrote stays, unless he is named.
    file = hosts.path("node3", "/var/lib/gpuguard/cordon.json")
    file.write_text(file.read_text().replace(owner, "eve@elsewhere"))
    kept = ann.run("uncordon", "node3", expect=5)
    assert "--force eve@elsewhere" in kept.err
    ann.run("uncordon", "node3", "--force", "eve@elsewhere")
    ann.run("migrate", "kept", "--yes")
    assert ann.jobs("kept") == {"node1": "moved", "node3": "running"}
    ann.run("uncordon", "node2")
    assert ann.run("uncordon", "node2", "-o", "json").json["items"][0]["state"] == "not-cordoned"
