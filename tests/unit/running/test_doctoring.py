"""Examining hosts from outside: clocks, keys, shared stores, hosts that do not answer."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuguard.model.errors import GpuguardError, UnreachableError
from gpuguard.model.inventory import Host, Inventory, Policy, StoreSpec
from gpuguard.model.plans import Finding, Level
from gpuguard.running.doctoring import HostReport, examine_hosts
from tests.fakes import FakePool, FakeSession, fake_host

NOW = 1_800_000_000.0
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKey gpuguard"
FINE = Finding(Level.OK, "criu", "some-hostname", "CRIU 4.2.1").to_dict()


def inventory(tmp_path: Path, *names: str, store: bool = True) -> Inventory:
    policy = Policy("default", store="shared" if store else None)
    return Inventory(
        path=str(tmp_path / "inventory.yaml"),
        hosts={name: fake_host(name) for name in names},
        stores={"shared": StoreSpec("shared", "/srv/store")},
        policies={"default": policy},
    )


def session(
    marks: set[str], ahead: float = 0.0, answers: dict[str, Any] | None = None
) -> FakeSession:
    """A healthy host whose store holds `marks`; hosts that share a set share the store."""

    def mark(store: str, token: str, action: str) -> dict[str, bool]:
        assert store == "/srv/store"
        if action == "leave":
            marks.add(token)
        elif action == "remove":
            marks.discard(token)
        return {"there": token in marks}

    told = datetime.fromtimestamp(NOW + ahead, UTC).isoformat().replace("+00:00", "Z")
    standard = {
        "ping": {"at": told, "monotonic": 1.0},
        "host.info": {"signing_key": KEY},
        "host.doctor": [FINE],
        "store.mark": mark,
    }
    return FakeSession({**standard, **(answers or {})})


def examine(
    where: Inventory, sessions: dict[str, Any], hosts: list[Host] | None = None
) -> dict[str, HostReport]:
    chosen = hosts or list(where.hosts.values())
    reports = examine_hosts(where, FakePool(sessions), chosen, clock=lambda: NOW)
    return {report.host: report for report in reports}


def pick(report: HostReport, code: str) -> Finding:
    (found,) = (item for item in report.findings if item.code == code)
    return found


def test_healthy_fleet_shares_one_store_and_no_mark_is_left(tmp_path: Path) -> None:
    marks: set[str] = set()
    where = inventory(tmp_path, "gpu001", "gpu002")
    reports = examine(where, {name: session(marks) for name in where.hosts})
    assert {report.worst for report in reports.values()} == {Level.OK}
    assert pick(reports["gpu001"], "criu").subject == "gpu001"
    assert pick(reports["gpu002"], "store-shared").level is Level.OK
    assert marks == set()


def test_folders_of_one_name_are_no_shared_store(tmp_path: Path) -> None:
    where = inventory(tmp_path, "gpu001", "gpu002")
    marks: list[set[str]] = [set(), set()]
    reports = examine(where, {"gpu001": session(marks[0]), "gpu002": session(marks[1])})
    found = pick(reports["gpu002"], "store-not-shared")
    assert found.level is Level.ERROR
    assert "gpu001" in found.text
    assert marks == [set(), set()]


def test_host_with_a_broken_store_is_left_out_of_the_comparison(tmp_path: Path) -> None:
    where = inventory(tmp_path, "gpu001", "gpu002")
    broken = Finding(Level.ERROR, "store-unfit", "x", "read-only").to_dict()
    sick = session(set(), answers={"host.doctor": [broken]})
    reports = examine(where, {"gpu001": session(set()), "gpu002": sick})
    assert sick.asked("store.mark") == []
    assert reports["gpu002"].worst is Level.ERROR
    assert reports["gpu001"].worst is Level.OK


def test_mark_is_removed_when_another_host_fails(tmp_path: Path) -> None:
    where = inventory(tmp_path, "gpu001", "gpu002")
    marks: set[str] = set()
    dead = session(marks, answers={"store.mark": UnreachableError("gpu002: the link ended")})
    reports = examine(where, {"gpu001": session(marks), "gpu002": dead})
    assert pick(reports["gpu002"], "store-unfit").text == "the link ended"
    assert marks == set()


def test_without_a_store_nothing_is_marked(tmp_path: Path) -> None:
    where = inventory(tmp_path, "gpu001", "gpu002", store=False)
    sessions = {name: session(set()) for name in where.hosts}
    examine(where, sessions)
    assert all(item.asked("store.mark") == [] for item in sessions.values())
    assert sessions["gpu001"].asked("host.doctor") == [
        {"stage": "/var/lib/gpuguard/stage", "store": None}
    ]


def test_stage_of_the_host_outranks_the_policy(tmp_path: Path) -> None:
    where = inventory(tmp_path, "gpu001")
    asked = session(set())
    examine(where, {"gpu001": asked}, [fake_host("gpu001", stage="/fast")])
    assert asked.asked("host.doctor") == [{"stage": "/fast", "store": "/srv/store"}]


def test_clock_that_is_off_is_a_warning(tmp_path: Path) -> None:
    where = inventory(tmp_path, "gpu001", "gpu002", "gpu003")
    marks: set[str] = set()
    reports = examine(
        where,
        {
            "gpu001": session(marks, ahead=90.0),
            "gpu002": session(marks, ahead=-90.0),
            "gpu003": session(marks, ahead=1.0),
        },
    )
    assert "90.0 s ahead" in pick(reports["gpu001"], "clock-skew").text
    assert "90.0 s behind" in pick(reports["gpu002"], "clock-skew").text
    assert pick(reports["gpu003"], "clock").level is Level.OK


def enrol(tmp_path: Path, key: str) -> Callable[[], Finding]:
    (tmp_path / "allowed_signers").write_text(
        f'gpu009 namespaces="gpuguard-manifest" ssh-ed25519 AAAAother\n'
        f'gpu001 namespaces="gpuguard-manifest" {key}\n'
    )
    where = inventory(tmp_path, "gpu001")
    return lambda: next(
        item
        for item in examine(where, {"gpu001": session(set())})["gpu001"].findings
        if item.code.startswith("key-")
    )


def test_signing_key_against_the_enrolled_one(tmp_path: Path) -> None:
    assert enrol(tmp_path, KEY)().code == "key-enrolled"
    changed = enrol(tmp_path, "ssh-ed25519 AAAAold gpuguard")()
    assert (changed.level, changed.code) == (Level.ERROR, "key-changed")
    (tmp_path / "allowed_signers").unlink()
    where = inventory(tmp_path, "gpu001")
    report = examine(where, {"gpu001": session(set())})["gpu001"]
    assert pick(report, "key-not-enrolled").level is Level.INFO


def test_host_that_does_not_answer_is_an_error_of_its_own(tmp_path: Path) -> None:
    where = inventory(tmp_path, "gpu001", "gpu002")
    error: GpuguardError = UnreachableError("gpu002: no route", "gpuguard hosts trust gpu002")
    reports = examine(where, {"gpu001": session(set()), "gpu002": error})
    assert reports["gpu002"].worst is None
    assert reports["gpu002"].error is not None
    assert reports["gpu002"].error["host"] == "gpu002"
    assert reports["gpu001"].worst is Level.OK
