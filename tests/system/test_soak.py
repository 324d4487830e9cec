"""A minute of the soak with a fixed seed, and proof that it would see each promise broken."""

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuguard.sandbox import fleet
from gpuguard.sandbox.requirements import refusal
from tests.soak.actions import HOSTS, generate
from tests.soak.soak import Soak

SEED = 1
SECONDS = 60.0
_NO = refusal()


def test_the_same_seed_gives_the_same_actions_and_another_one_others() -> None:
    first, again, other = (list(itertools.islice(generate(s), 300)) for s in (7, 7, 8))
    assert first == again
    assert first != other


@pytest.fixture(scope="module")
def soak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soak]:
    sandbox = fleet.up("soak", hosts=len(HOSTS), root=tmp_path_factory.mktemp("fleet"))
    yield Soak(sandbox, SEED, tmp_path_factory.mktemp("operators"))
    sandbox.down()


@pytest.mark.sandbox
@pytest.mark.timeout(600)
@pytest.mark.skipif(_NO is not None, reason=str(_NO))
def test_a_minute_of_actions_breaks_no_promise(soak: Soak) -> None:
    assert soak.run(SECONDS) > 3


@pytest.mark.sandbox
@pytest.mark.timeout(120)
@pytest.mark.skipif(_NO is not None, reason=str(_NO))
def test_what_is_broken_by_hand_is_seen(soak: Soak) -> None:
    promises, world = soak.promises, soak.hands.world
    assert promises.check() == []
    copy = next(copy for copy in world.copies() if not copy.frozen)
    job, host = copy.job, copy.host

    for process in copy.processes:
        os.kill(process.pid, signal.SIGSTOP)
    assert any("FROZEN" in text for text in _until_found(soak, "FROZEN"))
    for process in copy.processes:
        os.kill(process.pid, signal.SIGCONT)

    words = [*next(p for p in copy.processes if p.role == "steps").words]
    program = next(index for index, word in enumerate(words) if word.endswith("/steps"))
    other = next(name for name in HOSTS if name != host)
    log = world.disk(other) / "jobs" / job / "log"
    log.parent.mkdir(parents=True, exist_ok=True)
    second = world.sandbox.start_workload(
        other, [*words[program + 1 :], "--log", f"/var/lib/gpuguard/jobs/{job}/log"]
    )
    assert any("TWO RUNNING COPIES" in text for text in _until_found(soak, "TWO"))
    world.sandbox.run(other, ["kill", "-9", str(second)])

    newest = promises.newest(job)
    assert newest is not None
    image = max((newest.folder / "images").iterdir(), key=lambda path: path.stat().st_size)
    _flip(image)
    assert any("hash differ" in text for text in promises.rehash(job))
    newest.folder.rename(newest.folder.with_name(f".partial-{newest.folder.name}"))
    assert any("is GONE" in text for text in promises.check())


def _until_found(soak: Soak, word: str) -> list[str]:
    for _ in range(5):
        found = soak.promises.check()
        if any(word in text for text in found):
            return found
    return []


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
