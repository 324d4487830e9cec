"""known_hosts files as they are found in the wild."""

import os
import threading
from pathlib import Path

import pytest

from gpuguard.model.errors import GpuguardError
from gpuguard.remote.known_hosts import (
    HostKey,
    Standing,
    judge,
    known_types,
    lookup_name,
    read_known_hosts,
    record,
)


def make_key(seed: int, key_type: str = "ssh-ed25519") -> HostKey:
    head = len(key_type).to_bytes(4, "big") + key_type.encode()
    return HostKey(key_type, head + (32).to_bytes(4, "big") + bytes([seed]) * 32)


A, B = make_key(1), make_key(2)


def standing(path: Path, name: str, key: HostKey) -> Standing:
    return judge([read_known_hosts(path)], [name], key).standing


@pytest.mark.parametrize(
    ("line", "name", "key", "expected"),
    [
        (f"gpu1 {A.text}", "gpu1", A, Standing.KNOWN),
        (f"gpu1,10.0.0.1 {A.text} a comment", "10.0.0.1", A, Standing.KNOWN),
        (f"GPU1 {A.text}", "gpu1", A, Standing.KNOWN),
        (f"gpu1 {A.text}", "gpu2", A, Standing.UNKNOWN),
        (f"gpu1 {A.text}", "gpu1", B, Standing.CHANGED),
        (f"*.lab {A.text}", "gpu1.lab", A, Standing.KNOWN),
        (f"gpu? {A.text}", "gpu1", B, Standing.CHANGED),
        (f"*.lab,!bad.lab {A.text}", "bad.lab", A, Standing.UNKNOWN),
        (f"[10.0.0.1]:2222 {A.text}", "[10.0.0.1]:2222", A, Standing.KNOWN),
        (f"[10.0.0.1]:2222 {A.text}", "10.0.0.1", A, Standing.UNKNOWN),
        (f"@revoked * {A.text}", "gpu1", A, Standing.REVOKED),
        (f"@revoked * {A.text}\ngpu1 {A.text}", "gpu1", A, Standing.REVOKED),
        (f"@cert-authority * {A.text}\ngpu1 {A.text}", "gpu1", A, Standing.KNOWN),
        (f"@cert-authority * {A.text}", "gpu1", A, Standing.UNKNOWN),
        (f"gpu1 sk-ssh-ed25519@openssh.com AAAA\ngpu1 {A.text}", "gpu1", A, Standing.KNOWN),
        (
            f"broken\ngpu1 ssh-ed25519 !!!\n\n# gpu1 {B.text}\ngpu1 {A.text}",
            "gpu1",
            A,
            Standing.KNOWN,
        ),
        (f"gpu1 ssh-rsa {A.text.split()[1]}\ngpu1 {A.text}", "gpu1", A, Standing.KNOWN),
        (f"|1|bad|worse {A.text}", "gpu1", A, Standing.UNKNOWN),
    ],
)
def test_standing(tmp_path: Path, line: str, name: str, key: HostKey, expected: Standing) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(line + "\n")
    assert standing(path, name, key) is expected


def test_passed_over_lines_are_noted_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_bytes(b"\xff\xfe nonsense\n@cert-authority * x y\ngpu1 sk-x AAAA\n")
    notes = read_known_hosts(path).notes
    assert [note.split(": ")[0] for note in notes] == [f"{path}:{n}" for n in (1, 2, 3)]


def test_first_file_that_knows_the_host_decides(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text(f"gpu1 {A.text}\n")
    second.write_text(f"gpu1 {B.text}\ngpu2 {B.text}\n@revoked * {make_key(3).text}\n")
    files = [read_known_hosts(first), read_known_hosts(second)]
    assert judge(files, ["gpu1"], A).standing is Standing.KNOWN
    assert judge(files, ["gpu1"], B).standing is Standing.CHANGED
    assert judge(files, ["gpu2"], B).standing is Standing.KNOWN
    assert judge(files, ["gpu3"], make_key(3)).standing is Standing.REVOKED
    assert known_types(files, ["gpu1"]) == ["ssh-ed25519"]


def test_record_adds_once_and_replaces_only_this_host(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "known_hosts"
    record(path, "gpu1", A)
    record(path, "gpu1", A)
    record(path, "gpu2", A)
    assert path.read_text() == f"gpu1 {A.text}\ngpu2 {A.text}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    record(path, "gpu1", B, replace=True)
    assert path.read_text() == f"gpu2 {A.text}\ngpu1 {B.text}\n"
    assert path.stat().st_mode & 0o777 == 0o644


def test_replace_keeps_lines_it_does_not_understand(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    kept = f"# mine\n*.lab {A.text}\n@revoked gpu1 {A.text}\nbroken\n"
    path.write_text(kept + f"gpu1 {A.text}\n")
    record(path, "gpu1", B, replace=True)
    assert path.read_text() == kept + f"gpu1 {B.text}\n"


def test_record_follows_no_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("precious\n")
    (tmp_path / "known_hosts").symlink_to(tmp_path / "real")
    with pytest.raises(GpuguardError, match="symbolic link"):
        record(tmp_path / "known_hosts", "gpu1", A)
    assert (tmp_path / "real").read_text() == "precious\n"


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    threads = [threading.Thread(target=record, args=(path, f"gpu{n}", A)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_known_hosts(path).entries) == 20
    assert sorted(p.name for p in tmp_path.iterdir()) == [".known_hosts.lock", "known_hosts"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.touch(mode=0)
    with pytest.raises(GpuguardError, match="cannot be read"):
        read_known_hosts(path)


def test_lookup_name_is_openssh_s() -> None:
    assert lookup_name("10.0.0.1", 22) == "10.0.0.1"
    assert lookup_name("10.0.0.1", 2222) == "[10.0.0.1]:2222"
