"""A node's state folder and a store below the test's own folder."""

from pathlib import Path

import pytest

from gpuguard.agent.paths import NodePaths

__all__ = ["paths", "store"]


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodePaths:
    """Give the test a node root of its own, which agents and this process take for theirs."""
    root = tmp_path / "node"
    monkeypatch.setenv("GPUGUARD_NODE_ROOT", str(root))
    NodePaths().prepare()
    return NodePaths(root)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    return folder
