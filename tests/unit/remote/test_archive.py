"""The bundle that travels to nodes."""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

from gpuguard.remote.archive import make_bundle, pack


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getnames()


def test_bundle_holds_what_a_node_needs_and_no_more() -> None:
    found = names(make_bundle().tar)
    assert {"pynvml.py", "gpuguard/__init__.py", "gpuguard/agent/main.py"} <= set(found)
    rooms = {"agent", "model", "checkpoint", "health"}
    inside = [name for name in found if name.startswith("gpuguard/") and name.count("/") > 1]
    assert {name.split("/")[1] for name in inside} == rooms
    assert not [name for name in found if "__pycache__" in name or name.endswith(".pyc")]


def test_same_files_give_the_same_bytes_whatever_their_dates(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for path in (first, second):
        path.write_text("x = 1\n")
    second.chmod(0o777)
    assert pack({"m.py": first}).packed == pack({"m.py": second}).packed


def test_name_is_the_hash_of_what_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x = 1\n")
    bundle = pack({"m.py": tmp_path / "a"})
    assert hashlib.sha256(gzip.decompress(bundle.packed)).hexdigest() == bundle.sha256
