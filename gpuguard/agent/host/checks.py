"""What a host must have before a job can be saved or brought back on it: rights, tools, kernel."""

import importlib.util
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Optional

from gpuguard.model.plans import Finding, Level

# Debian's minimal Python lacks some of these.
_MODULES = ("ctypes", "fcntl", "hashlib", "json", "shutil", "subprocess", "tempfile", "zipfile")
_TOOLS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setsid": "util-linux",
    "timeout": "coreutils",
    "ssh-keygen": "openssh-client",
}
_USEFUL_TOOLS = {"nft": ("nftables", "the network of a job with open connections cannot be held")}
# Numbers of capabilities(7).
_NEEDED_RIGHTS = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SYS_CHROOT": 18,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
}
_USEFUL_RIGHTS = {
    "CAP_NET_ADMIN": (12, "jobs with open connections may be refused"),
    "CAP_SYS_RESOURCE": (24, "jobs of another user than root cannot be saved"),
}
_GRANT = "run sshd of this host outside the container, or give the container these rights"
_NAMESPACES = ("ipc", "mnt", "pid", "user", "uts")


def finding(level: Level, code: str, text: str, remedy: Optional[str] = None) -> Finding:
    """Return a finding about this host."""
    return Finding(level, code, platform.node(), text, remedy)


def check_python() -> list[Finding]:
    """Check the interpreter that runs the agent, and the modules it has."""
    missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
    version = platform.python_version()
    if missing:
        text = f"Python {version} lacks {', '.join(missing)}"
        return [finding(Level.ERROR, "python-modules", text, "apt-get install python3")]
    return [finding(Level.OK, "python", f"Python {version}, {sys.executable}")]


def check_rights(status: Optional[str] = None) -> list[Finding]:
    """Check the capabilities in force, not the uid: a container's root may lack most.

    `status` is the text of /proc/self/status, for tests.
    """
    text = status if status is not None else Path("/proc/self/status").read_text()
    held = int(
        next(line.split()[1] for line in text.splitlines() if line.startswith("CapEff:")), 16
    )
    missing = [name for name, bit in _NEEDED_RIGHTS.items() if not held >> bit & 1]
    if missing:
        return [_no_rights(missing)]
    weak = [
        finding(Level.WARNING, "rights-partial", f"without {name} {loss}", _GRANT)
        for name, (bit, loss) in _USEFUL_RIGHTS.items()
        if not held >> bit & 1
    ]
    return weak or [finding(Level.OK, "rights", "root with every capability that is needed")]


def _no_rights(missing: list[str]) -> Finding:
    if os.geteuid() != 0:
        remedy = "log in as root, or give the login a sudo rule without a password (sudo -n true)"
        return finding(Level.ERROR, "rights", f"runs as uid {os.geteuid()}, not as root", remedy)
    return finding(Level.ERROR, "rights", f"root, but without {', '.join(missing)}", _GRANT)


def check_tools() -> list[Finding]:
    """Check that the tools a checkpoint or a restore calls are there."""
    found = [
        finding(Level.ERROR, "tool-missing", f"{name} is missing", f"apt-get install {package}")
        for name, package in _TOOLS.items()
        if shutil.which(name) is None
    ]
    found += [
        finding(
            Level.WARNING,
            "tool-missing",
            f"{name} is missing: {loss}",
            f"apt-get install {package}",
        )
        for name, (package, loss) in _USEFUL_TOOLS.items()
        if shutil.which(name) is None
    ]
    return found or [finding(Level.OK, "tools", f"{', '.join([*_TOOLS, *_USEFUL_TOOLS])}")]


def check_kernel(proc: Path = Path("/proc")) -> list[Finding]:
    """Check what the kernel was built with, as far as /proc shows it."""
    missing = [
        f"{name} namespaces" for name in _NAMESPACES if not (proc / "self/ns" / name).exists()
    ]
    if not (proc / "sys/kernel/ns_last_pid").exists():
        missing.append("CONFIG_CHECKPOINT_RESTORE")
    release = platform.release()
    if missing:
        text = f"kernel {release} lacks {', '.join(missing)}"
        remedy = "boot a kernel of your distribution that has it"
        return [finding(Level.ERROR, "kernel-feature", text, remedy)]
    if not (proc / "self/ns/time").exists():
        text = (
            f"kernel {release} has no time namespaces: a job's monotonic clock jumps at a restore"
        )
        return [finding(Level.WARNING, "kernel-feature", text, "boot Linux 5.6 or newer")]
    return [finding(Level.OK, "kernel", f"Linux {release}")]
