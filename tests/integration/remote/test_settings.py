"""What OpenSSH's settings and the inventory make of a host."""

import shutil
from pathlib import Path

import pytest

from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import Host
from gpuguard.remote.settings import Settings
from tests.integration.remote.agents import NEEDS_ACCOUNT

pytestmark = [
    pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client"),
    NEEDS_ACCOUNT,
]


CONFIG = """
Include {folder}/more
Host gpu001
  User ops
  IdentityFile {folder}/%r_key
  ProxyJump gate.lab:2200,inner
Host alias
  HostName 10.0.0.9
  HostKeyAlias key-of-alias
  ProxyCommand nc %h %p
  IdentityAgent none
  IdentitiesOnly yes
Host *
  Port 2222
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "config").write_text(CONFIG.format(folder=tmp_path))
    (tmp_path / "more").write_text("Host deep\n  Port 77\n")
    (tmp_path / "ops_key").touch()
    return Settings(tmp_path / "config")


def test_openssh_s_word_counts_where_the_inventory_is_silent(
    settings: Settings, tmp_path: Path
) -> None:
    route = settings.of_host(Host("gpu001", "198.18.0.11"))
    assert (route.hostname, route.port, route.user) == ("198.18.0.11", 2222, "ops")
    assert route.identity_files == (tmp_path / "ops_key",)
    assert route.jumps == ("gate.lab:2200", "inner")
    assert settings.of_host(Host("deep", "deep")).port == 77


def test_inventory_s_word_is_above_openssh_s(settings: Settings) -> None:
    host = Host("gpu001", "198.18.0.11", 22, "root", ("/k",), proxy_jump="none")
    route = settings.of_host(host)
    assert (route.port, route.user, route.identity_files) == (22, "root", (Path("/k"),))
    assert route.jumps == ()


def test_proxy_command_alias_and_agent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    route = settings.of_host(Host("alias", "alias"))
    assert route.proxy_command == "nc 10.0.0.9 2222"
    assert (route.host_key_alias, route.agent, route.identities_only) == (
        "key-of-alias",
        None,
        True,
    )
    assert settings.of_host(Host("gpu001", "gpu001")).agent == "/run/agent"


def test_each_host_is_asked_for_once(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = settings.of_host(Host("gpu001", "gpu001"))
    (tmp_path / "config").write_text("nonsense\n")
    assert settings.of_host(Host("gpu001", "gpu001")) == first
    with pytest.raises(UsageError, match="OpenSSH cannot read its settings"):
        settings.of_host(Host("gpu002", "gpu002"))
