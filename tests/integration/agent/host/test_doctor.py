"""What the doctor finds out by children: CRIU asked, folders tried, and either of them stuck."""

from pathlib import Path

import pytest

from gpuguard.agent.bounded import run_bounded
from gpuguard.agent.criu import checks as criu_checks
from gpuguard.agent.host import doctor
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.store import folder_checks
from gpuguard.model.plans import Level
from tests.unit.agent.findings import codes


def criu(tmp_path: Path, body: str) -> None:
    tool = tmp_path / "criu"
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)


@pytest.mark.parametrize(
    ("kernel", "body", "expected"),
    [
        ("6.18.44", 'echo "Version: 4.2.1"', ("ok", "criu")),
        ("6.18.44", 'echo "Version: 4.1.1"', ("error", "criu-too-old")),
        ("6.12.9", 'echo "Version: 4.1.1"', ("ok", "criu")),
        ("6.12.9", 'echo "Version: 3.17.1"', ("error", "criu-too-old")),
        ("6.18.44", "echo garbage", ("error", "criu-broken")),
        (
            "6.18.44",
            'if [ "$1" = check ]; then echo "Error: no" >&2; exit 1; fi; echo "Version: 4.2"',
            ("error", "criu-check"),
        ),
    ],
)
def test_criu(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kernel: str,
    body: str,
    expected: tuple[str, str],
) -> None:
    criu(tmp_path, body)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("platform.release", lambda: kernel)
    assert codes(criu_checks.check_criu()) == {expected}


def test_criu_that_is_missing_or_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert codes(criu_checks.check_criu()) == {("error", "criu-missing")}
    criu(tmp_path, 'if [ "$1" = check ]; then exec /bin/sleep 30; fi; echo "Version: 4.2"')
    monkeypatch.setattr(criu_checks, "_SECONDS", 0.3)
    (found,) = criu_checks.check_criu()
    assert found.code == "criu-check"
    assert "hangs" in found.text


def test_good_folders_are_left_as_they_were(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    (found,) = folder_checks.check_folder("store", store)
    assert found.code in ("store", "store-room")
    (found,) = folder_checks.check_folder("stage", tmp_path / "not/there/yet")
    assert found.code in ("stage", "stage-room")
    assert list(store.iterdir()) == []
    assert list(tmp_path.iterdir()) == [store]


def test_missing_store_and_file_in_its_place(tmp_path: Path) -> None:
    assert codes(folder_checks.check_folder("store", tmp_path / "gone")) == {
        ("error", "store-missing")
    }
    (tmp_path / "file").touch()
    (found,) = folder_checks.check_folder("store", tmp_path / "file")
    assert found.code == "store-unfit"


def test_hanging_store_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(folder_checks, "_CHILD", "import time; time.sleep(30)")
    (found,) = folder_checks.check_folder("store", tmp_path, seconds=0.3)
    assert found.code == "store-hangs"


def test_child_that_dies_is_not_taken_for_a_good_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(folder_checks, "_CHILD", "raise SystemExit('no such thing')")
    (found,) = folder_checks.check_folder("store", tmp_path)
    assert found.level is Level.ERROR
    assert "no such thing" in found.text


def test_diagnosis_without_a_store_is_an_error(tmp_path: Path) -> None:
    found = doctor.diagnose(NodePaths(tmp_path), tmp_path / "stage", None)
    assert ("error", "store-none") in codes(found)
    seen = {item.code.split("-")[0] for item in found}
    assert {"python", "rights", "kernel", "criu", "agent", "signing", "stage"} <= seen
    assert all(item.remedy for item in found if item.level is Level.ERROR)


def test_bounded_child_tells_its_code_and_its_last_line() -> None:
    done = run_bounded(("/bin/sh", "-c", "echo one; echo two >&2; exit 3"), 10)
    assert (done.code, done.text) == (3, "two")
    assert run_bounded(("/bin/sleep", "30"), 0.2).code is None
