"""OpenSSH itself explains a configuration that is not the own one."""

import shutil
from pathlib import Path

import pytest

from gpuguard.inventory.importers.draft import render
from gpuguard.inventory.importers.ssh_config import read_ssh_config
from gpuguard.model.errors import UsageError
from tests.unit.inventory.imported import SSH_CONFIG, loaded, make_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make_home(tmp_path)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the OpenSSH client")
def test_another_ssh_configuration_is_explained_by_ssh(home: Path) -> None:
    other = home / "fleet.conf"
    other.write_text(SSH_CONFIG.replace("fleet/*.conf", str(home / ".ssh/fleet/*.conf")))
    draft = read_ssh_config(other, home)
    assert draft.hosts["inner"] == {"address": "10.1.1.1"}
    assert draft.hosts["plain"] == {"port": 2200, "user": "matched"}
    assert draft.hosts["alias"] == {
        "address": "10.9.9.9",
        "user": "ops",
        "identity_files": ["~/.ssh/special"],
        "proxy_jump": "jump",
    }
    assert "jump hosts are looked up in ~/.ssh/config: jump" in draft.notes
    assert loaded(render(draft)).host("other").proxy_jump == "jump"


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the OpenSSH client")
def test_what_ssh_refuses_is_said_in_its_words(home: Path) -> None:
    other = home / "bad.conf"
    other.write_text("Host a\n  Prot 22\n")
    with pytest.raises(UsageError) as caught:
        read_ssh_config(other, home)
    assert "ssh cannot read it" in caught.value.message
