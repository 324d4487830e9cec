"""What a base root is made of; its digest is the base's name in the cache."""

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import StrEnum

# The full python3: the minimal one lacks ctypes, shutil and zipfile, which the agent needs.
_PACKAGES = (
    "iproute2",
    "nftables",
    "openssh-server",
    "procps",
    "psmisc",
    "python3",
    "rsync",
    "sudo",
    "util-linux",
)

_SSHD = """\
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
UseDNS no
PrintMotd no
HostKey /etc/ssh/ssh_host_ed25519_key
MaxStartups 200
MaxSessions 200
# A practice fleet is logged in to often and wrongly; nobody is to be locked out for it.
PerSourcePenalties no
"""

_SUDO = "ops ALL=(ALL) NOPASSWD: ALL\n"


class CriuKind(StrEnum):
    """Which CRIU a base carries."""

    CURRENT = "current"  # 4.2 or newer: dumps sockets on kernels from 6.16 on
    OLD = "old"  # 4.1.1, the release's own: cannot, and is to be refused well


@dataclass(frozen=True)
class Recipe:
    """A Debian root for sandbox hosts; change anything and a new base is built."""

    suite: str = "trixie"
    packages: tuple[str, ...] = _PACKAGES
    newer_suite: str = "sid"  # where the current CRIU comes from
    sshd: str = _SSHD
    sudoers: str = _SUDO
    users: tuple[str, ...] = ("ops", "guest")  # ops may use sudo, guest may not
    revision: int = 1  # raise it when the build itself changes

    def digest(self, kind: CriuKind | None = None) -> str:
        """Return the name of the base in the cache; without a kind, of the root before CRIU."""
        text = json.dumps([asdict(self), kind.value if kind else None], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
