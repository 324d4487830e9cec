"""Where a sandbox keeps its files."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuguard.model.errors import UsageError

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
SCRIPTS = Path(__file__).parent


def state_root(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder that holds one folder a sandbox."""
    return _root("XDG_STATE_HOME", "/var/lib/gpuguard-sandbox", ".local/state", environ)


def cache_root(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder that holds the base roots all sandboxes share."""
    return _root("XDG_CACHE_HOME", "/var/cache/gpuguard/sandbox", ".cache", environ)


def _root(variable: str, as_root: str, at_home: str, environ: Mapping[str, str] | None) -> Path:
    environ = os.environ if environ is None else environ
    if environ.get(variable):
        return Path(environ[variable]).absolute() / "gpuguard" / "sandbox"
    if os.geteuid() == 0:
        return Path(as_root)
    return Path.home() / at_home / "gpuguard" / "sandbox"


@dataclass(frozen=True)
class HostFolder:
    """What one host keeps on the machine: its disk and the traces of its processes."""

    path: Path

    @property
    def disk(self) -> Path:
        """Return the overlay's upper folder: everything the host ever wrote."""
        return self.path / "disk"

    @property
    def work(self) -> Path:
        """Return the overlay's work folder."""
        return self.path / "work"

    @property
    def root(self) -> Path:
        """Return the mount point of the host's root; empty as seen from the machine."""
        return self.path / "root"

    @property
    def keeper(self) -> Path:
        """Return the file that names the process outside the host that holds its pid 1."""
        return self.path / "keeper"

    @property
    def init(self) -> Path:
        """Return the file that names the host's pid 1 as the machine sees it."""
        return self.path / "init"

    @property
    def boot_id(self) -> Path:
        """Return the file with the id of the host's latest boot."""
        return self.path / "boot_id"

    @property
    def cut(self) -> Path:
        """Return the file that exists while the host is cut off the network."""
        return self.path / "cut"

    @property
    def log(self) -> Path:
        """Return the file with what the host said before its own console existed."""
        return self.path / "boot.log"


@dataclass(frozen=True)
class SandboxFolder:
    """What one sandbox keeps on the machine; gone after `down`."""

    path: Path

    @property
    def record(self) -> Path:
        """Return the file that says what the sandbox consists of."""
        return self.path / "sandbox.json"

    @property
    def lock(self) -> Path:
        """Return the lock file of the sandbox."""
        return self.path / "lock"

    @property
    def store(self) -> Path:
        """Return the folder that all hosts see as /srv/gpuguard."""
        return self.path / "store"

    @property
    def inventory(self) -> Path:
        """Return the inventory that other commands take."""
        return self.path / "inventory.yaml"

    @property
    def known_hosts(self) -> Path:
        """Return the file with the hosts' public keys."""
        return self.path / "known_hosts"

    @property
    def client_key(self) -> Path:
        """Return the private key that logs in to every host."""
        return self.path / "id_ed25519"

    def host(self, name: str) -> HostFolder:
        """Return the folder of one host."""
        return HostFolder(self.path / "hosts" / name)


def sandbox_folder(name: str, root: Path | None = None) -> SandboxFolder:
    """Return the folder of the sandbox `name`; raise UsageError for a name that cannot be one."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a sandbox", "use up to 32 of a-z, 0-9 and -, not - first"
        )
    path = (root or state_root()) / name
    if any(sign in str(path) for sign in ",:\\\n"):
        # The overlay's mount options are separated by these.
        raise UsageError(f"{path}: a sandbox's folder cannot hold a comma, colon or backslash")
    return SandboxFolder(path)
