"""Enrolling signing keys, judged by ssh-keygen itself."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gpuguard.model.errors import GpuguardError, RefusedError
from gpuguard.remote import signers
from tests.integration.remote.agents import NEEDS_ACCOUNT

pytestmark = [
    pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen"),
    NEEDS_ACCOUNT,
]


def make_key(path: Path, kind: str = "ed25519") -> str:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "gpuguard", "-f", path], check=True
    )
    return Path(f"{path}.pub").read_text()


def verifies(folder: Path, key: Path, host: str, namespace: str = "gpuguard-manifest") -> bool:
    signature = subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", key],
        input=b"manifest",
        capture_output=True,
        check=True,
    ).stdout
    (folder / "sig").write_bytes(signature)
    files = ["-f", str(folder / "allowed_signers"), "-s", str(folder / "sig")]
    words = [*files, "-n", namespace, "-I", host]
    done = subprocess.run(
        ["ssh-keygen", "-Y", "verify", *words], input=b"manifest", capture_output=True, check=False
    )
    return done.returncode == 0


def test_enrolled_key_verifies_for_its_host_and_purpose_alone(tmp_path: Path) -> None:
    assert signers.read(tmp_path) == ""
    assert signers.enrol(tmp_path, "gpu001", make_key(tmp_path / "a"))
    assert signers.enrol(tmp_path, "gpu002", make_key(tmp_path / "b"))
    assert verifies(tmp_path, tmp_path / "a", "gpu001")
    assert not verifies(tmp_path, tmp_path / "a", "gpu002")
    assert not verifies(tmp_path, tmp_path / "a", "gpu001", "file")


def test_same_key_again_changes_nothing(tmp_path: Path) -> None:
    key = make_key(tmp_path / "a")
    signers.enrol(tmp_path, "gpu001", key)
    before = signers.read(tmp_path)
    assert not signers.enrol(tmp_path, "gpu001", key)
    assert signers.read(tmp_path) == before


def test_changed_key_needs_replace(tmp_path: Path) -> None:
    signers.enrol(tmp_path, "gpu001", make_key(tmp_path / "a"))
    signers.enrol(tmp_path, "gpu0011", make_key(tmp_path / "c"))
    new = make_key(tmp_path / "b")
    with pytest.raises(RefusedError, match="signing key has CHANGED"):
        signers.enrol(tmp_path, "gpu001", new)
    assert verifies(tmp_path, tmp_path / "a", "gpu001")
    assert signers.enrol(tmp_path, "gpu001", new, replace=True)
    assert verifies(tmp_path, tmp_path / "b", "gpu001")
    assert not verifies(tmp_path, tmp_path / "a", "gpu001")
    assert verifies(tmp_path, tmp_path / "c", "gpu0011")
    assert set(signers.enrolled(tmp_path)) == {"gpu001", "gpu0011"}


@pytest.mark.parametrize("host", ["*", "gpu*", "a,b", "!a", "", "a b", "a\nb"])
def test_name_that_could_speak_for_others_is_refused(tmp_path: Path, host: str) -> None:
    key = make_key(tmp_path / "a")
    with pytest.raises(GpuguardError, match="no host name"):
        signers.enrol(tmp_path, host, key)
    assert signers.read(tmp_path) == ""


def test_other_keys_and_noise_are_refused(tmp_path: Path) -> None:
    for text in (make_key(tmp_path / "r", "ecdsa"), "", "None", "ssh-ed25519 AAAA"):
        with pytest.raises(GpuguardError, match="no Ed25519 key"):
            signers.enrol(tmp_path, "gpu001", text)
