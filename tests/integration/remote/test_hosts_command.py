"""`gpuguard hosts` against real sshd processes and the real agent."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.remote.sshd import Farm, Server

pytestmark = pytest.mark.timeout(180)  # many processes each: a busy machine takes its time


@pytest.fixture
def fleet(farm: Farm) -> tuple[Farm, Server, Server]:
    first, second = farm.add(2), farm.add(3)
    farm.wait()
    (farm.folder / "known_hosts").unlink()
    (farm.folder / "inventory.yaml").write_text(
        f"""version: 1
defaults: {{user: {first.host().user}, sudo: false, identity_files: [{first.client_key}]}}
hosts:
  gpu002: {{address: {first.address}, port: {first.port}}}
  gpu003: {{address: {second.address}, port: {second.port}}}
  behind:
    address: {second.address}
    port: {second.port}
    proxy_jump: {first.host().user}@{first.address}:{first.port}
  gone: {{address: 127.0.0.50, port: 1, connect_timeout: 1}}
"""
    )
    return farm, first, second


def gpuguard(farm: Farm, *words: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "gpuguard", "-i", str(farm.folder / "inventory.yaml"), *words]
    options = {"stdin": subprocess.DEVNULL, **options}
    return subprocess.run(argv, capture_output=True, text=True, check=False, **options)


def test_from_unknown_to_enrolled(fleet: tuple[Farm, Server, Server]) -> None:
    farm, first, second = fleet
    known = farm.folder / "known_hosts"

    refused = gpuguard(farm, "hosts", "enroll", "gpu002")
    assert refused.returncode == 5 and "gpuguard hosts trust gpu002" in refused.stderr

    asked = gpuguard(farm, "hosts", "trust", "gpu002")
    assert asked.returncode == 2 and "nobody to ask" in asked.stderr
    key = first.folder / "host_key.pub"
    told = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True)
    assert told.stdout.split()[1] in asked.stderr and "(ED25519)" in asked.stderr
    assert not known.exists()

    done = gpuguard(farm, "hosts", "trust", "gpu00[2-3]", "gone", "--yes")
    assert done.returncode == 3 and "gone" in done.stderr
    assert known.read_text() == "".join(f"{s.lookup} {s.host_key}\n" for s in (first, second))

    done = gpuguard(farm, "hosts", "enroll", "gpu002", "behind", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert [item["new"] for item in json.loads(done.stdout)["items"]] == [True, True]
    signers = (farm.folder / "allowed_signers").read_text().splitlines()
    node_key = (first.folder / "node" / "keys" / "manifest_ed25519.pub").read_text().split()[1]
    assert len(signers) == 2  # in the order of the answers
    assert f'gpu002 namespaces="gpuguard-manifest" ssh-ed25519 {node_key}' in signers

    listed = json.loads(gpuguard(farm, "hosts", "list", "-o", "json").stdout)["items"]
    assert [bool(item["host_keys"]) for item in listed] == [True, True, True, False]
    assert [bool(item["signing_key"]) for item in listed] == [True, False, True, False]


def test_changed_keys_need_replace(fleet: tuple[Farm, Server, Server]) -> None:
    farm, first, second = fleet
    known = farm.folder / "known_hosts"
    known.write_text(f"{first.lookup} {second.host_key}\n")
    done = gpuguard(farm, "hosts", "trust", "gpu002", "--yes")
    assert done.returncode == 5 and "--replace gpu002" in done.stderr
    assert known.read_text() == f"{first.lookup} {second.host_key}\n"
    assert gpuguard(farm, "hosts", "trust", "gpu002", "--yes", "--replace").returncode == 0
    assert known.read_text() == f"{first.lookup} {first.host_key}\n"

    signers = farm.folder / "allowed_signers"
    old = f'gpu002 namespaces="gpuguard-manifest" {second.host_key}\n'
    signers.write_text(old)
    done = gpuguard(farm, "hosts", "enroll", "gpu002")
    assert done.returncode == 5 and "signing key has CHANGED" in done.stderr
    assert signers.read_text() == old
    assert gpuguard(farm, "hosts", "enroll", "gpu002", "--replace").returncode == 0
    assert second.host_key not in signers.read_text()


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"\n", 1), (b"y\n", 0)])
def test_person_is_asked_and_no_is_the_default(
    fleet: tuple[Farm, Server, Server], answer: bytes, code: int
) -> None:
    farm, _, _ = fleet
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    done = gpuguard(farm, "hosts", "trust", "gpu002", stdin=theirs)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code, done.stderr
    assert (farm.folder / "known_hosts").exists() == (code == 0)


def test_jump_host_outside_the_inventory_can_be_trusted(fleet: tuple[Farm, Server, Server]) -> None:
    farm, first, _ = fleet
    done = gpuguard(farm, "hosts", "trust", first.address, "--yes")
    assert done.returncode == 0, done.stderr
    assert (farm.folder / "known_hosts").read_text() == f"{first.lookup} {first.host_key}\n"
    assert gpuguard(farm, "hosts", "trust", "nowhere", "--yes").returncode == 2


def test_unwritable_known_hosts(fleet: tuple[Farm, Server, Server], tmp_path: Path) -> None:
    farm, _, _ = fleet
    (tmp_path / "real").write_text("")
    (farm.folder / "known_hosts").symlink_to(tmp_path / "real")
    done = gpuguard(farm, "hosts", "trust", "gpu002", "--yes")
    assert done.returncode == 1 and "symbolic link" in done.stderr
