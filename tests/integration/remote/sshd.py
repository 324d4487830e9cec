"""Real OpenSSH servers on loopback addresses, one a host, with keys and settings of their own."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gpuguard.model.inventory import Host
from gpuguard.remote.person import login_name

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def make_key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def free_port(address: str) -> int:
    with socket.socket() as sock:
        sock.bind((address, 0))
        return int(sock.getsockname()[1])


def start_sshd(folder: Path) -> "subprocess.Popen[bytes]":
    assert SSHD
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [SSHD, "-D", "-e", "-f", folder / "sshd_config"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def children(pid: int) -> list[int]:
    try:
        told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return []
    return [int(child) for child in told.split()]


def descendants(pids: list[int]) -> list[int]:
    """Return `pids` and all below them, parents first."""
    found = list(pids)
    for pid in found:
        found += children(pid)
    return found


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def kill(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@dataclass
class Server:
    """One sshd: `host` is its line in the inventory."""

    name: str
    address: str
    port: int
    folder: Path
    process: "subprocess.Popen[bytes]"
    client_key: Path

    @property
    def host_key(self) -> str:
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    @property
    def lookup(self) -> str:
        return f"[{self.address}]:{self.port}"

    def host(self, **changes: object) -> Host:
        values: dict[str, object] = {
            "name": self.name,
            "address": self.address,
            "port": self.port,
            "user": login_name(),
            "identity_files": [str(self.client_key)],
            "connect_timeout": 2.0,
            "timeout": 10.0,
            "sudo": False,
            **changes,
        }
        return Host.from_dict(values)

    def children(self) -> list[int]:
        """One process for each of its connections."""
        return children(self.process.pid)

    def cut(self) -> None:
        """Kill whatever holds its connections: for a login without root, that is two processes."""
        kill(pid for pid in descendants(self.children()) if name_of(pid).startswith("sshd"))


@dataclass
class Farm:
    """All servers of one test; `known_hosts` trusts each of them."""

    folder: Path
    servers: list[Server] = field(default_factory=list)

    def add(self, number: int, *options: str) -> Server:
        address, name = f"127.0.0.{number}", f"gpu{number:03d}"
        folder = self.folder / name
        folder.mkdir()
        make_key(folder / "host_key")
        key = self.folder / "client"
        if not key.exists():
            make_key(key)
        shutil.copy(key.with_suffix(".pub"), folder / "authorized_keys")
        port = free_port(address)
        config = folder / "sshd_config"
        config.write_text(
            "\n".join(
                [
                    *options,
                    f"ListenAddress {address}:{port}",
                    f"HostKey {folder}/host_key",
                    f"AuthorizedKeysFile {folder}/authorized_keys",
                    f"PidFile {folder}/pid",
                    "StrictModes no",
                    "UsePAM no",
                    "PasswordAuthentication no",
                    "KbdInteractiveAuthentication no",
                    "PermitRootLogin prohibit-password",
                    "MaxStartups 100",
                    # bash reads no start-up file at level 2, so the tester's own stay out of it.
                    f"SetEnv GPUGUARD_NODE_ROOT={folder}/node SHLVL=1",
                ]
            )
            + "\n"
        )
        process = start_sshd(folder)
        server = Server(name, address, port, folder, process, key)
        self.servers.append(server)
        self.trust(server)
        return server

    def trust(self, server: Server) -> None:
        with (self.folder / "known_hosts").open("a") as stream:
            stream.write(f"{server.lookup} {server.host_key}\n")

    def wait(self) -> None:
        """Wait until all servers listen."""
        for server in self.servers:
            deadline = time.monotonic() + 10
            while True:
                try:
                    socket.create_connection((server.address, server.port), 1).close()
                    break
                except OSError:
                    assert time.monotonic() < deadline, (server.folder / "log").read_text()
                    time.sleep(0.02)

    def stop(self) -> None:
        for server in self.servers:
            kill(descendants([server.process.pid]))
            server.process.wait()
