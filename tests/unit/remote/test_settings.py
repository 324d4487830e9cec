"""What of a host's settings is refused or split before OpenSSH is asked."""

from pathlib import Path

import pytest

from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import Host
from gpuguard.remote.settings import Settings, split_jump


@pytest.mark.parametrize("name", ["-oProxyCommand=touch x", "a b", "", "a;b", "a\nb"])
def test_name_that_could_be_an_option_is_refused(tmp_path: Path, name: str) -> None:
    settings = Settings(tmp_path / "config")
    with pytest.raises(UsageError, match="is no host name"):
        settings.of_host(Host(name, name))
    with pytest.raises(UsageError):
        settings.of_host(Host("gpu001", "10.0.0.1", user=name or "-l"))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("gate", ("", "gate", "")),
        ("ops@gate:2200", ("ops", "gate", "2200")),
        ("ssh://ops@gate:2200", ("ops", "gate", "2200")),
        ("a@b@gate", ("a@b", "gate", "")),
        ("[fe80::1]:22", ("", "fe80::1", "22")),
    ],
)
def test_jump_is_split(spec: str, expected: tuple[str, str, str]) -> None:
    assert split_jump(spec) == expected


@pytest.mark.parametrize("spec", ["", "user@", "gate:port", "a:b:c"])
def test_broken_jump_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="proxy_jump"):
        split_jump(spec)


def test_machine_without_openssh_gets_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    route = Settings().of_host(Host("gpu001", "198.18.0.11", user="ops"))
    assert (route.hostname, route.port, route.user) == ("198.18.0.11", 22, "ops")
