"""The practice fleet of the system tests: one a module, gone afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuguard.sandbox import fleet
from gpuguard.sandbox.fleet import Sandbox
from tests.system.kit import Operator


@pytest.fixture(scope="module")
def three_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = fleet.up("system", hosts=3, root=tmp_path_factory.mktemp("fleet"))
    yield made
    made.down()


@pytest.fixture
def operator(three_hosts: Sandbox, tmp_path: Path) -> Operator:
    return Operator(three_hosts, tmp_path)
