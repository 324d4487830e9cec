"""One host of a sandbox: its disk, its power and its cable."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from gpuguard.model.errors import GpuguardError
from gpuguard.sandbox import network
from gpuguard.sandbox.places import SCRIPTS, HostFolder, SandboxFolder
from gpuguard.sandbox.processes import ProcessMark, end_processes, namespace_inits, read_mark
from gpuguard.sandbox.programs import install_programs
from gpuguard.sandbox.record import HostRecord, SandboxRecord
from gpuguard.sandbox.tools import run_tool

_BOOT_SECONDS = 20.0
_LISTENING_ON_22 = ":0016 00000000:0000 0A"


@dataclass(frozen=True)
class PracticeHost:
    """A host as the machine handles it."""

    sandbox: SandboxFolder
    record: SandboxRecord
    host: HostRecord

    @property
    def folder(self) -> HostFolder:
        """Return the host's folder on the machine."""
        return self.sandbox.host(self.host.name)

    def init(self) -> ProcessMark | None:
        """Return the host's pid 1 as the machine sees it, or None while the power is off."""
        mark = read_mark(self.folder.init)
        return mark if mark and mark.alive() else None

    def state(self) -> str:
        """Return `on`, `off` or `cut` (on, but off the network)."""
        if not self.init():
            return "off"
        return "cut" if self.folder.cut.exists() else "on"

    def boot_id(self) -> str | None:
        """Return the id of the present boot, or None while the power is off."""
        return self.folder.boot_id.read_text().strip() if self.init() else None

    def power_on(self) -> None:
        """Start the host without waiting for it; safe to repeat."""
        if self.init():
            return
        if self.folder.keeper.exists():
            self.power_off()  # what a crash or its own end left of an earlier boot
        address = f"{self.record.address(self.host)}/24"
        script = str(SCRIPTS / "launch.sh")
        words = [str(self.folder.path), self.host.base, str(self.sandbox.store), self.host.name]
        run_tool(["setsid", "--fork", "bash", script, *words, address])

    def wait_ready(self) -> None:
        """Plug the cable in and wait until sshd listens.

        Raises GpuguardError with the host's own last words if it does not come up.
        """
        deadline = time.monotonic() + _BOOT_SECONDS
        plugged = False
        while time.monotonic() < deadline:
            init = self.init()
            if init and not plugged:
                cut = self.folder.cut.exists()
                network.connect_host(self.record, self.host, init.pid, cut)
                plugged = True
            if init and _listens(init):
                return
            if not init and self._given_up():
                break
            time.sleep(0.01)
        words = self._last_words()
        raise GpuguardError(
            f"{self.host.name}: does not come up: {words[-1]}",
            f"gpuguard sandbox down --name {self.record.name}, then up again",
            {"log": words},
        )

    def power_off(self) -> None:
        """End all processes of the host at once, as a pulled plug does; its disk stays.

        Raises GpuguardError if one of them hangs in the kernel.
        """
        marks = [read_mark(self.folder.keeper), read_mark(self.folder.init)]
        # The keeper may have been killed just before its pid 1 could note itself down.
        end_processes([*marks, *namespace_inits(self.folder.path)])
        for file in (self.folder.keeper, self.folder.init, self.folder.boot_id):
            file.unlink(missing_ok=True)
        network.remove_link(self.record.link(self.host))

    def set_cable(self, plugged: bool) -> None:
        """Cut the host off the network or heal it; it stays so over a reboot."""
        if plugged:
            self.folder.cut.unlink(missing_ok=True)
        else:
            self.folder.cut.touch()
        network.set_link(self.record, self.host, plugged)

    def _given_up(self) -> bool:
        keeper = read_mark(self.folder.keeper)
        return bool(keeper) and not (keeper and keeper.alive())

    def _last_words(self) -> list[str]:
        spoken = ["it said nothing"]
        for log in (self.folder.log, self.folder.disk / "var/log/console.log"):
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            # Tools indent what merely continues an error.
            spoken += [line for line in lines if line[:1].strip()]
        return spoken[-20:]


def make_disk(host: PracticeHost, hosts_file: str, authorized_keys: str) -> None:
    """Lay out an empty disk with the host's own name, host key and who may log in."""
    folder = host.folder
    for path in (folder.disk, folder.work, folder.root):
        path.mkdir(parents=True, exist_ok=True)
    _write(folder.disk / "etc/hostname", f"{host.host.name}\n")
    _write(folder.disk / "etc/hosts", hosts_file)
    _authorize(folder.disk, host.host.base, authorized_keys)
    install_programs(folder.disk)
    key = host_key(folder)
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True)
        make_key(key, f"root@{host.host.name}")


def host_key(folder: HostFolder) -> Path:
    """Return the host's private SSH key; the public half lies beside it."""
    return folder.disk / "etc/ssh/ssh_host_ed25519_key"


def make_key(path: Path, comment: str) -> None:
    """Make an Ed25519 key pair without a passphrase; half a pair left by a crash is replaced."""
    partial = path.with_name(f"{path.name}.partial")
    for left in (partial, partial.with_name(f"{partial.name}.pub")):
        left.unlink(missing_ok=True)
    run_tool(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(partial)])
    partial.with_name(f"{partial.name}.pub").rename(path.with_name(f"{path.name}.pub"))
    partial.rename(path)


def _authorize(disk: Path, base: str, keys: str) -> None:
    for home in ("root", "home/ops", "home/guest"):
        owner = Path(base, home).stat()
        for path in (disk / home, disk / home / ".ssh"):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.chown(path, owner.st_uid, owner.st_gid)
        file = disk / home / ".ssh/authorized_keys"
        _write(file, keys)
        file.chmod(0o600)
        shutil.chown(file, owner.st_uid, owner.st_gid)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _listens(init: ProcessMark) -> bool:
    try:
        return _LISTENING_ON_22 in Path(f"/proc/{init.pid}/net/tcp").read_text()
    except (FileNotFoundError, ProcessLookupError, OSError):
        return False
