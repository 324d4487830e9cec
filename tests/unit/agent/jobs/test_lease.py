"""A job's lease: renewed while its store is there, lapsed without it, on a clock nobody can set."""

import json
import shutil
import time
from pathlib import Path

import pytest

from gpuguard.agent.jobs import lease as module
from gpuguard.agent.jobs.lease import Lease
from gpuguard.agent.store.attempts import read_lease
from gpuguard.agent.store.epochs import EpochRecord, claim_epoch


class Stopwatch:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    made = Stopwatch()
    monkeypatch.setattr(module, "_boottime", made)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    (folder / "train").mkdir(parents=True)
    (folder / "train/uid").write_text("uid-1\n")
    return folder


def claim(store: Path, epoch: int, host: str) -> None:
    claim_epoch(store / "train", EpochRecord(epoch, host, "uid-1", f"p{epoch}", "now"))


def save(store: Path) -> None:
    (store / "train/20260131T120000Z-aaaaaa").mkdir()
    (store / "train/20260131T120000Z-aaaaaa/manifest.sig").touch()


def leased(store: Path, epoch: int = 1) -> Lease:
    order = {"store": str(store), "job": "train", "uid": "uid-1", "epoch": epoch, "seconds": 10.0}
    return Lease(order, lambda text: None)


def in_force(store: Path) -> Lease:
    claim(store, 1, "h1")
    save(store)
    made = leased(store)
    assert made.renew() == ""
    return made


def counter(store: Path) -> int:
    found = read_lease(str(store), "train")
    assert found is not None
    return int(found["counter"])


def test_before_a_durable_checkpoint_it_binds_nobody(store: Path, clock: Stopwatch) -> None:
    made = leased(store)
    claim(store, 1, "h1")
    (store / "train/.partial-20260131T120000Z-aaaaaa").mkdir()
    made.renew()
    assert read_lease(str(store), "train") is None
    clock.now += 1000
    assert not made.lapsed()


def test_each_renewal_moves_the_counter(store: Path, clock: Stopwatch) -> None:
    made = in_force(store)
    assert read_lease(str(store), "train") == {
        "epoch": 1,
        "host": "h1",
        "seconds": 10.0,
        "counter": 0,
    }
    assert (made.renew(), counter(store)) == ("", 1)
    assert (made.renew(), counter(store)) == ("", 2)


def test_without_its_store_it_lapses_before_its_term(store: Path, clock: Stopwatch) -> None:
    made = in_force(store)
    store.rename(store.with_name("away"))
    clock.now += 7.9
    assert made.renew() != ""
    assert not made.lapsed()
    clock.now += 0.2
    assert made.lapsed()
    assert "could not be reached for 8 s" in made.why


def test_an_empty_mount_point_is_not_the_store(store: Path, clock: Stopwatch) -> None:
    made = in_force(store)
    store.rename(store.with_name("away"))
    store.mkdir()
    clock.now += 9
    assert made.renew() != ""
    assert made.lapsed()


def test_a_store_that_comes_back_in_time_is_enough(store: Path, clock: Stopwatch) -> None:
    made = in_force(store)
    store.rename(store.with_name("away"))
    clock.now += 7
    assert made.renew() != ""
    store.with_name("away").rename(store)
    assert made.renew() == ""
    clock.now += 7
    assert not made.lapsed()


def test_a_job_whose_folder_was_removed_goes_on(store: Path, clock: Stopwatch) -> None:
    made = in_force(store)
    shutil.rmtree(store / "train")
    clock.now += 7
    assert "was removed" in made.renew()
    clock.now += 7
    assert not made.lapsed()


def test_another_holder_ends_it_at_once(store: Path, clock: Stopwatch) -> None:
    made = in_force(store)
    claim(store, 2, "h2")
    made.renew()
    assert made.lapsed()
    assert made.why == "h2 holds epoch 2 of the job, this copy is of 1"


def test_a_copy_that_has_not_claimed_yet_waits(store: Path, clock: Stopwatch) -> None:
    in_force(store)
    held = leased(store, 2)
    held.renew()
    clock.now += 1000
    assert not held.lapsed()
    claim(store, 2, "h2")
    assert held.renew() == ""
    assert read_lease(str(store), "train") == {
        "epoch": 2,
        "host": "h2",
        "seconds": 10.0,
        "counter": 0,
    }


def test_another_job_of_the_name_is_not_ours(store: Path, clock: Stopwatch) -> None:
    made = in_force(store)
    (store / "train/uid").write_text("uid-2\n")
    clock.now += 9
    assert "belongs to another job" in made.renew()
    assert made.lapsed()


def test_a_set_clock_changes_nothing(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = in_force(store)
    for jump in (-86400.0 * 365, 86400.0 * 365):
        monkeypatch.setattr(time, "time", lambda jump=jump: 1e9 + jump)
        assert made.renew() == ""
        assert not made.lapsed()
    source = Path(module.__file__).read_text()
    assert "time.time" not in source
    assert "st_mtime" not in source


def test_the_record_is_read_whole_or_not_at_all(store: Path, clock: Stopwatch) -> None:
    in_force(store)
    path = store / "train/leases/1"
    assert path.stat().st_size == module._BYTES
    assert json.loads(path.read_text())["epoch"] == 1
    assert [item.name for item in path.parent.iterdir()] == ["1"]
