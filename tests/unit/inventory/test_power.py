"""Power commands and leases in an inventory."""

from pathlib import Path

import pytest

from gpuguard.inventory.load import parse_inventory
from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import Inventory, Power

TEXT = """\
version: 1
defaults: {power: {status: [bmc, "{host}", status], off: [bmc, "{host}", "off"]}}
stores: {shared: {path: /srv/gpuguard}}
policies:
  default: {store: shared}
  alone: {store: shared, fence: lease, lease: 2m}
groups: {rack: {hosts: gpu002, power: {status: [redfish, "{address}"]}}}
hosts: {gpu001: {}, gpu002: {}, gpu003: {power: null}}
"""


def load(text: str) -> Inventory:
    return parse_inventory(text, Path("/etc/gpuguard/inventory.yaml"))


def faults(text: str) -> list[str]:
    with pytest.raises(UsageError) as caught:
        load(text)
    found: list[dict[str, str]] = caught.value.details["problems"]
    return [f"{it['key']}: {it['reason']}" for it in found]


def test_commands_are_layered_as_a_whole_and_taken_back_by_null() -> None:
    hosts = load(TEXT).hosts
    assert hosts["gpu001"].power == Power(("bmc", "{host}", "status"), ("bmc", "{host}", "off"))
    assert hosts["gpu002"].power == Power(("redfish", "{address}"))
    assert hosts["gpu003"].power is None


def test_an_inventory_survives_its_own_dictionary() -> None:
    loaded = load(TEXT)
    assert Inventory.from_dict(loaded.to_dict()) == loaded


def test_a_lease_is_opt_in() -> None:
    loaded = load(TEXT)
    assert (loaded.policy("default").fence, loaded.policy("alone").fence) == ("proof", "lease")
    assert loaded.policy("alone").lease == 120.0


@pytest.mark.parametrize(
    ("power", "reason"),
    [
        ("{off: [bmc]}", "is missing"),
        ("{status: bmc status}", "write the command as a list"),
        ("{status: []}", "at least 1 item"),
        ("{status: [bmc], stauts: [x]}", "did you mean status?"),
        ("bmc", "expected a mapping"),
    ],
)
def test_mistakes_are_named_in_place(power: str, reason: str) -> None:
    for place in ("defaults: {power: %s}", "hosts: {gpu001: {power: %s}}"):
        found = faults("version: 1\n" + place % power + "\n")
        assert len(found) == 1
        assert "power" in found[0]
        assert reason in found[0]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [("{fence: lesae}", "did you mean lease?"), ("{lease: 1}", "less than 3")],
)
def test_mistakes_in_a_policy(policy: str, reason: str) -> None:
    assert reason in faults(f"version: 1\npolicies: {{default: {policy}}}\n")[0]
