from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def node_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = tmp_path / "node"
    monkeypatch.setenv("GPUGUARD_NODE_ROOT", str(root))
    yield root
