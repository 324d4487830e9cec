"""Systemd itself reads the boot unit's text."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gpuguard.agent.procedures import boot_unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("root", ["/var/lib/gpuguard", "/var/lib/gpu guard/50%"])
def test_systemd_takes_it(tmp_path: Path, root: str) -> None:
    path = tmp_path / boot_unit.NAME
    path.write_text(boot_unit.unit_text(Path(root), ("/bin/true", "boot")))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True
    )
    complaints = [line for line in done.stderr.splitlines() if boot_unit.NAME in line]
    assert complaints == [], done.stderr
