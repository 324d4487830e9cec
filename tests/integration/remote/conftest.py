import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.remote.sshd import SSHD, Farm


@pytest.fixture(autouse=True)
def node_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "node"
    monkeypatch.setenv("GPUGUARD_NODE_ROOT", str(root))
    return root


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Farm]:
    if SSHD is None:
        pytest.skip("needs OpenSSH's server: apt-get install openssh-server")
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        pytest.skip("needs an account to log in to: this user is a number alone")
    if os.geteuid() == 0:
        # sshd refuses to start without its empty folder, whoever configured it.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    farm = Farm(tmp_path)
    yield farm
    farm.stop()
