"""What a host sees around a checkpoint: ports, addresses, locks, room, programs."""

import fcntl
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from gpuguard.agent.restoring import host_sight
from gpuguard.agent.survey.build_ids import add_build_ids, read_build_id
from gpuguard.agent.survey.listening import has_address, parse_place, port_holders
from gpuguard.checkpoint.host_seen import HostSeen
from gpuguard.model.manifests import Manifest, OpenFile
from tests.unit.agent.checkpoints import draft


@pytest.fixture(autouse=True)
def criu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_sight, "criu_version", lambda: "4.2.1")


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_the_holder_of_a_port_is_named(kind: socket.SocketKind) -> None:
    word = "tcp" if kind is socket.SOCK_STREAM else "udp"
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(("127.0.0.1", 0))
        if kind is socket.SOCK_STREAM:
            holder.listen()
        port = holder.getsockname()[1]
        everywhere = "0.0.0.0"  # noqa: S104 - compared, not bound
        wanted = [parse_place(f"{word} {where}:{port}") for where in (everywhere, "127.0.0.1")]
        for place, (other, pids) in port_holders(wanted).items():
            assert str(port) in place
            assert other == f"{word} 127.0.0.1:{port}"
            assert os.getpid() in pids
        assert len(port_holders(wanted)) == 2
        assert port_holders([parse_place(f"{word} 127.0.0.2:{port}")]) == {}
    assert port_holders(wanted) == {}


def test_addresses_of_this_host() -> None:
    assert has_address("127.0.0.1")
    assert not has_address("203.0.113.77")


def look(manifest: Manifest) -> HostSeen:
    return host_sight.look_around("h2", manifest, None)


def test_a_lock_that_another_process_holds(tmp_path: Path) -> None:
    path = tmp_path / "locked"
    item = OpenFile(str(path), 0, 0o100644, True, False, locked=True)
    with path.open("w") as file:
        assert look(draft("x", open_files=(item,))).locks == ()
        fcntl.flock(file, fcntl.LOCK_EX)
        (sentence,) = look(draft("x", open_files=(item,))).locks
    assert f"process {os.getpid()} (" in sentence


def test_room_is_counted_by_mount_and_removed_files_too(tmp_path: Path) -> None:
    items = (
        OpenFile(str(tmp_path / "a"), 10, 0o100644, True, False, captured="files/0"),
        OpenFile(str(tmp_path / "new/b"), 20, 0o100644, True, False, captured="files/1"),
        OpenFile("/dev/shm/gpuguard-gone", 40, 0o100644, True, False, deleted=True),
    )
    rooms = {room.folder: room.need for room in look(draft("x", open_files=items)).rooms}
    assert sum(rooms.values()) == 70
    assert rooms.get("/dev/shm", 0) in (0, 40)


def test_a_file_in_the_way_of_a_working_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    tree = (replace(draft("x").tree[0], cwd=str(tmp_path / "file" / "below")),)
    assert look(draft("x", tree=tree)).blocked == (str(tmp_path / "file"),)


def test_build_ids_are_of_the_file_that_was_mapped(tmp_path: Path) -> None:
    library = next(
        Path(line.split()[-1])
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "libc.so" in line
    )
    size = library.stat().st_size
    item = OpenFile(str(library), size, 0o100755, False, False, mapped=True)
    (found,) = add_build_ids([item], os.getpid())
    assert found.build_id == read_build_id(str(library))
    assert found.build_id
    (replaced,) = add_build_ids([replace(item, size=size + 1)], os.getpid())
    assert replaced.build_id is None
    (written,) = add_build_ids([replace(item, writable=True)], os.getpid())
    assert written.build_id is None
