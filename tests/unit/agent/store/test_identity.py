"""A store is known again; an empty mount point is not taken for it."""

from pathlib import Path

import pytest

from gpuguard.agent.paths import NodePaths
from gpuguard.agent.store.identity import recognise_store, require_same_store
from gpuguard.model.errors import GpuguardError, RefusedError


@pytest.fixture
def node(tmp_path: Path) -> NodePaths:
    made = NodePaths(tmp_path / "node")
    made.prepare()
    return made


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


def test_two_nodes_agree_on_the_id_of_a_store(node: NodePaths, store: Path, tmp_path: Path) -> None:
    other = NodePaths(tmp_path / "other")
    other.prepare()
    recognise_store(node, str(store))
    recognise_store(other, str(store))
    recognise_store(node, str(store))
    assert node.stores.read_text() == other.stores.read_text()
    assert [path.name for path in store.iterdir()] == [".store-id"]


def test_a_store_never_used_is_not_marked_by_looking(node: NodePaths, store: Path) -> None:
    require_same_store(node, str(store))
    assert list(store.iterdir()) == []


@pytest.mark.parametrize("found", [None, "of another"])
def test_another_folder_under_the_path_is_refused(
    node: NodePaths, store: Path, tmp_path: Path, found: "str | None"
) -> None:
    recognise_store(node, str(store))
    store.rename(tmp_path / "unmounted")
    store.mkdir()
    if found:
        (store / ".store-id").write_text(found)
    for check in (recognise_store, require_same_store):
        with pytest.raises(RefusedError, match="is not the store that was there") as caught:
            check(node, str(store))
        assert str(node.stores) in str(caught.value.hint)
    store.rename(tmp_path / "gone")
    with pytest.raises(GpuguardError, match="does not exist"):
        require_same_store(node, str(store))
