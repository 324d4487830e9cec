"""A node root of each test's own, and everything that a test left running ended."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuguard.agent import processes
from gpuguard.agent.paths import NodePaths
from tests.integration.agent.kit import Agent
from tests.node_folder import paths, store

__all__ = ["agent", "as_root", "paths", "root", "store", "world"]


@pytest.fixture
def root(paths: NodePaths) -> Iterator[Path]:
    yield paths.root
    end_all(paths.root)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    folder = tmp_path / "world"
    folder.mkdir()
    return folder


@pytest.fixture
def agent(root: Path) -> Iterator[Agent]:
    running = Agent(root)
    yield running
    running.close()


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: jobs live in namespaces of their own")


def end_all(root: Path) -> None:
    """End what still runs with a path below this test's root on its command line."""
    for pid, entry in processes.every_process().items():
        if any(word.startswith(os.fsencode(root)) for word in processes.command_line(pid)):
            processes.send_signal(entry.ref, 9)
