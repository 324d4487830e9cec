"""The stand-in agent as a bundle, and sessions with it over the local transport."""

from pathlib import Path

import pytest

from gpuguard.model.inventory import Host
from gpuguard.remote.archive import Bundle, pack
from gpuguard.remote.bootstrap import greet
from gpuguard.remote.client import AgentSession, Patience
from gpuguard.remote.local import open_local
from gpuguard.remote.person import login_name

NEEDS_ACCOUNT = pytest.mark.skipif(
    login_name().isdigit(), reason="OpenSSH serves accounts alone: this user is a number"
)
STAND_IN = Path(__file__).parents[2] / "stand_in_agent.py"


def stand_in_bundle(tmp_path: Path, main: Path = STAND_IN) -> Bundle:
    empty = tmp_path / "empty.py"
    empty.write_text("")
    return pack(
        {
            "gpuguard/__init__.py": empty,
            "gpuguard/agent/__init__.py": empty,
            "gpuguard/agent/main.py": main,
        }
    )


def local_host(**changes: object) -> Host:
    values = {"name": "here", "address": "localhost", "transport": "local", "sudo": False}
    return Host.from_dict({**values, **changes})


def local_session(tmp_path: Path, patience: Patience | None = None) -> AgentSession:
    bundle = stand_in_bundle(tmp_path)
    host = local_host()
    return greet(host, "me", open_local(host, bundle), bundle, patience or Patience())
