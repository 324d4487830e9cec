"""Open files of real processes, as /proc shows them."""

import mmap
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuguard.agent.survey.connections import open_terminals, read_descriptors, shared_outside
from gpuguard.agent.survey.open_files import (
    SeenFile,
    capture_bytes,
    capture_files,
    largest_deleted,
    read_open_files,
    too_large,
)

PROGRAM = """
import mmap, os, sys
base = sys.argv[1]
plain = open(base + "/plain.log", "w"); plain.write("x" * 10); plain.flush()
append = open(base + "/append.log", "a"); append.write("y" * 20); append.flush()
data = open(base + "/data", "rb")
both_a = open(base + "/both", "a"); both_w = open(base + "/both", "r+b")
ghost = open(base + "/ghost", "wb"); ghost.write(b"g" * 3000); ghost.flush()
os.unlink(base + "/ghost")
os.mkfifo(base + "/fifo"); fifo = os.open(base + "/fifo", os.O_RDWR)
folder = os.open(base, os.O_RDONLY)
shared = open(base + "/shared", "r+b"); view = mmap.mmap(shared.fileno(), 4096); shared.close()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def process(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    (tmp_path / "data").write_bytes(b"d" * 40)
    (tmp_path / "both").write_bytes(b"")
    (tmp_path / "shared").write_bytes(b"s" * 4096)
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    with running:
        yield running
        running.kill()


def by_name(seen: list[SeenFile], folder: Path) -> dict[str, SeenFile]:
    return {
        os.path.relpath(item.record.path, folder): item
        for item in seen
        if item.record.path.startswith(str(folder))
    }


def test_every_kind_is_seen_as_it_is(tmp_path: Path, process: "subprocess.Popen[str]") -> None:
    seen = by_name(read_open_files([process.pid]), tmp_path)
    plain, append, data = (seen[name].record for name in ("plain.log", "append.log", "data"))
    assert (plain.writable, plain.append, plain.size) == (True, False, 10)
    assert (append.writable, append.append, append.size) == (True, True, 20)
    assert (data.writable, data.append, data.size) == (False, False, 40)
    assert not seen["both"].record.append  # one writer that does not append is enough
    assert seen["ghost"].record.deleted
    assert stat.S_ISFIFO(seen["fifo"].record.mode)
    assert stat.S_ISDIR(seen["."].record.mode)
    shared = seen["shared"].record
    assert (shared.mapped, shared.writable, shared.size) == (True, True, mmap.PAGESIZE)


def test_the_program_and_its_libraries_are_recorded_not_copied(
    tmp_path: Path, process: "subprocess.Popen[str]"
) -> None:
    seen = read_open_files([process.pid])
    libraries = [item for item in seen if "/libc" in item.record.path]
    assert libraries
    assert all(item.record.mapped and not item.opened for item in libraries)
    (tmp_path / "out/files").mkdir(parents=True)
    records = capture_files(seen, tmp_path / "out", 1 << 20)
    assert {Path(r.path).name for r in records if r.captured} == {
        "plain.log",
        "append.log",
        "data",
        "both",
        "shared",
    }
    copy = next(r for r in records if r.path.endswith("plain.log")).captured
    assert (tmp_path / "out" / str(copy)).read_bytes() == b"x" * 10


def test_what_is_too_large_is_said_not_copied(
    tmp_path: Path, process: "subprocess.Popen[str]"
) -> None:
    seen = read_open_files([process.pid])
    (tmp_path / "out/files").mkdir(parents=True)
    records = capture_files(seen, tmp_path / "out", 30)
    assert not any(r.captured for r in records if Path(r.path).name in ("data", "shared"))
    notes = too_large(seen, 30)
    assert len(notes) == 2
    assert "larger than the capture limit of 30" in notes[0]
    assert capture_bytes(seen, 30) == 30
    assert largest_deleted(seen) == 3000


def test_pipes_held_outside_of_the_tree_are_found(process: "subprocess.Popen[str]") -> None:
    descriptors = read_descriptors([process.pid])
    outside = shared_outside({process.pid}, descriptors)
    assert os.getpid() in outside
    assert outside[os.getpid()]
    assert not open_terminals(descriptors)
    assert open_terminals({"/dev/pts/3", "/dev/null"}) == ["/dev/pts/3"]


def test_a_process_that_is_gone_has_no_files() -> None:
    assert read_open_files([2**22 + 1]) == []
