"""The boot unit stands while a journal is open, and systemd takes its text."""

from pathlib import Path

import pytest

from gpuguard.agent.paths import NodePaths
from gpuguard.agent.procedures import boot_unit

ODD_ROOT = Path("/var/lib/gpu guard/50%")


def test_the_text_names_root_and_command() -> None:
    text = boot_unit.unit_text(
        Path("/var/lib/gpuguard"), ("/usr/bin/python3", "-I", "m.py", "boot")
    )
    assert "ExecStart=/usr/bin/python3 -I m.py boot\n" in text
    assert "Environment=GPUGUARD_NODE_ROOT=/var/lib/gpuguard\n" in text
    assert "Type=oneshot" in text
    assert "remote-fs.target" in text


def test_odd_paths_are_quoted_the_way_systemd_reads_them() -> None:
    text = boot_unit.unit_text(ODD_ROOT, ("/bin/echo", "a $b", 'say "x"'))
    assert 'Environment="GPUGUARD_NODE_ROOT=/var/lib/gpu guard/50%%"\n' in text
    assert 'ExecStart=/bin/echo "a $$b" "say \\"x\\""\n' in text


def test_it_is_wanted_at_boot_and_goes_without_a_trace(tmp_path: Path) -> None:
    units = tmp_path / "units"
    units.mkdir()
    paths = NodePaths(tmp_path / "state")
    boot_unit.install(paths, units)
    boot_unit.install(paths, units)
    link = units / "multi-user.target.wants" / boot_unit.NAME
    assert link.resolve() == (units / boot_unit.NAME).resolve()
    assert str(paths.root) in (units / boot_unit.NAME).read_text()
    boot_unit.remove(units)
    boot_unit.remove(units)
    assert [path for path in units.rglob("*") if not path.is_dir()] == []


def test_it_stands_down_only_when_nothing_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(boot_unit, "systemd_runs", lambda: True)
    monkeypatch.setattr(boot_unit, "remove", lambda: done.append("removed"))
    monkeypatch.setattr(boot_unit, "install", lambda paths: done.append("installed"))
    paths = NodePaths(tmp_path)
    folder = paths.procedure("open-one")
    folder.mkdir(parents=True)
    (folder / "request.json").write_text("{}")
    boot_unit.stand_down(paths)
    assert done == []
    (folder / "result.json").write_text("{}")
    boot_unit.stand_down(paths)
    assert done == ["removed"]
