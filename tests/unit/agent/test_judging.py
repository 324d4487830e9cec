"""What a host says of a checkpoint: store, signature, copies, ports, locks, room, programs."""

import fcntl
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpuguard.agent.paths import NodePaths
from gpuguard.agent.preflight_methods import judge, preflight
from gpuguard.agent.restoring import host_sight
from gpuguard.agent.restoring.judging import Question, judge_host
from gpuguard.agent.survey.build_ids import add_build_ids, read_build_id
from gpuguard.agent.survey.listening import has_address, parse_place, port_holders
from gpuguard.checkpoint.host_seen import HostSeen
from gpuguard.model.errors import UsageError
from gpuguard.model.manifests import Manifest, OpenFile
from gpuguard.model.plans import Finding, Level
from tests.unit.agent.checkpoints import JOB, draft, fill_stage, publish, signers
from tests.unit.agent.odd_jobs import job_of, running

HELD = ("store", "signature", "copies", "cordon", "programs", "files", "pids")


@pytest.fixture(autouse=True)
def criu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_sight, "criu_version", lambda: "4.2.1")


@pytest.fixture
def paths(tmp_path: Path) -> NodePaths:
    (tmp_path / "node").mkdir()
    return NodePaths(tmp_path / "node")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    store = tmp_path / "store"
    store.mkdir()
    python = OpenFile(
        "/usr/bin/python3",
        Path("/usr/bin/python3").stat().st_size,
        0o100755,
        False,
        False,
        mapped=True,
    )
    return publish(store, tmp_path / "keys", fill_stage(tmp_path / "stage"), open_files=(python,))


def ask(paths: NodePaths, folder: Path, **changes: object) -> dict[str, Finding]:
    keys = folder.parents[2] / "keys"
    question = Question(str(folder.parents[1]), JOB, "h2", folder.name, signers(keys))
    return {f.code: f for f in judge_host(paths, replace(question, **changes))}  # type: ignore[arg-type]


def against(found: dict[str, Finding]) -> set[str]:
    return {code for code, item in found.items() if item.level is Level.ERROR}


def test_a_whole_checkpoint_on_a_host_that_fits(paths: NodePaths, saved: Path) -> None:
    found = ask(paths, saved)
    assert against(found) == set()
    assert set(HELD) <= found.keys()
    assert found["signature"].text == "signed by h1, which is enrolled"


def cut(folder: Path) -> None:
    pages = folder / "images" / "pages-1.img"
    pages.write_bytes(pages.read_bytes()[:-1])


def drop(folder: Path) -> None:
    (folder / "images" / "pstree.img").unlink()


def replay(folder: Path) -> None:
    folder.rename(folder.with_name("20260101T000000Z-aaaaaa"))


@pytest.mark.parametrize(
    ("tamper", "words"),
    [(cut, "cut short"), (drop, "pstree.img is missing"), (replay, "is of checkpoint")],
)
def test_a_damaged_checkpoint(
    paths: NodePaths, saved: Path, tamper: Callable[[Path], None], words: str
) -> None:
    tamper(saved)
    folder = next(path for path in saved.parent.iterdir() if path.name.startswith("20"))
    found = ask(paths, folder)
    assert against(found) == {"checkpoint-damaged"}
    assert words in found["checkpoint-damaged"].text


def test_who_signed_it(paths: NodePaths, saved: Path, tmp_path: Path) -> None:
    assert against(ask(paths, saved, allowed_signers="")) == {"signature-unknown"}
    other = signers(tmp_path / "other-keys")
    assert against(ask(paths, saved, allowed_signers=other)) == {"signature-unknown"}
    own = signers(tmp_path / "keys", "h9")
    assert against(ask(paths, saved, allowed_signers=own)) == {"signature-other-node"}
    text = (saved / "manifest.json").read_text()
    (saved / "manifest.json").write_text(text.replace('"epoch": 1', '"epoch": 2'))
    assert against(ask(paths, saved)) == {"signature-wrong"}


def test_a_store_that_is_not_there_or_shows_nothing(paths: NodePaths, saved: Path) -> None:
    shutil.rmtree(saved)
    assert against(ask(paths, saved)) == {"store-unreachable"}
    saved.parent.parent.rename(saved.parent.parent.with_name("away"))
    assert against(ask(paths, saved)) == {"store-unreachable"}


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


def test_a_running_job_is_judged_by_its_record(
    paths: NodePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("looks into other processes")
    from gpuguard.agent.jobs.register import save_job

    monkeypatch.setenv("GPUGUARD_NODE_ROOT", str(paths.root))
    program = "s = socket.create_server(('127.0.0.1', 0)); f = open('log', 'a')"
    with running(program, tmp_path) as process:
        save_job(paths, job_of(process.pid))
        answer = preflight({"name": "odd", "host": "h1"}, None)  # type: ignore[arg-type]
    assert "store-none" in {item.code for item in answer["findings"]}
    record = answer["record"].to_dict()
    assert len(record["listens"]) == 1
    assert any(item["build_id"] for item in record["open_files"])
    (tmp_path / "store").mkdir()
    question = {"store": str(tmp_path / "store"), "job": "other", "host": "h2", "record": record}
    found = {item.code: item for item in judge(question, None)}  # type: ignore[arg-type]
    assert against(found) == set()
    assert "signature" not in found
    with pytest.raises(UsageError, match="checkpoint"):
        judge({**question, "record": None}, None)  # type: ignore[arg-type]
