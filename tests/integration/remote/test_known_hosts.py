"""Hashed names and fingerprints, as OpenSSH makes them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gpuguard.remote.known_hosts import (
    Standing,
    judge,
    read_known_hosts,
)
from tests.integration.remote.agents import NEEDS_ACCOUNT


@NEEDS_ACCOUNT
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_hashed_names_and_fingerprints_agree_with_openssh(tmp_path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "k"], check=True
    )
    words = (tmp_path / "k.pub").read_text().split()
    path = tmp_path / "known_hosts"
    path.write_text(f"[10.0.0.1]:2222 {words[0]} {words[1]}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", path], check=True, capture_output=True)
    entry = read_known_hosts(path).entries[0]
    assert entry.patterns.startswith("|1|")
    assert (
        judge([read_known_hosts(path)], ["[10.0.0.1]:2222"], entry.key).standing is Standing.KNOWN
    )
    assert judge([read_known_hosts(path)], ["10.0.0.1"], entry.key).standing is Standing.UNKNOWN
    told = subprocess.run(
        ["ssh-keygen", "-l", "-f", tmp_path / "k.pub"], check=True, capture_output=True, text=True
    ).stdout
    assert told.split()[1] == entry.key.fingerprint
