"""What the machine must offer before a sandbox can stand on it."""

import os
import platform
import shutil
from pathlib import Path

from gpuguard.model.errors import RefusedError
from gpuguard.sandbox.tools import run_tool

# tool -> the Debian package that brings it
_TOOLS = {
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "pivot_root": "util-linux",
    "mount": "mount",
    "ssh-keygen": "openssh-client",
    "bash": "bash",
}
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def refusal() -> RefusedError | None:
    """Return why no sandbox can stand on this machine, or None if one can."""
    if platform.system() != "Linux":
        return RefusedError(
            f"the sandbox needs Linux: its hosts are namespaces; this is {platform.system()}",
            "run it on a Linux machine; gpuguard itself drives remote hosts from here",
        )
    if os.geteuid() != 0:
        return RefusedError(
            "the sandbox needs root: it makes namespaces, mounts and a network bridge",
            "sudo gpuguard sandbox up",
        )
    if not _has_overlayfs():
        return RefusedError(
            "the sandbox needs overlayfs, which this kernel does not have", "modprobe overlay"
        )
    return None


def missing_packages() -> list[str]:
    """Return the Debian packages the sandbox needs and the machine lacks."""
    packages = {package for tool, package in _TOOLS.items() if not shutil.which(tool)}
    if not _KEYRING.exists():
        packages.add("debian-archive-keyring")
    return sorted(packages)


def require_machine() -> None:
    """Make sure a sandbox can stand here, installing missing Debian packages.

    Raises RefusedError with the reason if it cannot.
    """
    no = refusal()
    if no:
        raise no
    packages = missing_packages()
    if not packages:
        return
    if not shutil.which("apt-get"):
        raise RefusedError(
            f"the sandbox needs {', '.join(packages)}, and there is no apt-get to install them",
            "install them with this system's own package manager",
        )
    run_tool(["apt-get", "update"], doing="fetching the package lists")
    command = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", *packages]
    run_tool(command, doing=f"installing {', '.join(packages)}")


def _has_overlayfs() -> bool:
    if "overlay" in Path("/proc/filesystems").read_text().split():
        return True
    if shutil.which("modprobe"):
        run_tool(["sh", "-c", "modprobe overlay || true"])
    return "overlay" in Path("/proc/filesystems").read_text().split()
