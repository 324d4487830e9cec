"""A command line in this process, and a fleet of one host that does not answer."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuguard.commands import main
from gpuguard.commands.options import Settings, use_settings

Ask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Run a command line in this process, which spares Python's start and every import."""
    for name in [*os.environ]:
        if name.startswith(("GPUGUARD_", "XDG_", "NO_COLOR")):
            monkeypatch.delenv(name)

    def ask(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main.run([*words])
        assert isinstance(ended.value.code, int)
        said = capsys.readouterr()
        return subprocess.CompletedProcess(words, ended.value.code, said.out, said.err)

    before = signal.getsignal(signal.SIGTERM)
    yield ask
    signal.signal(signal.SIGTERM, before)
    use_settings(Settings())


INVENTORY = """
version: 1
stores: {shared: {path: /srv/gpuguard}}
policies: {default: {store: shared}}
hosts:
  closed: {address: 127.0.0.1, port: 1}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    return {
        "GPUGUARD_INVENTORY": str(tmp_path / "inventory.yaml"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
