"""A sandbox that is up: its hosts, commands in them, their power and their cables."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.sandbox import teardown
from gpuguard.sandbox.host import PracticeHost
from gpuguard.sandbox.lock import locked
from gpuguard.sandbox.places import SandboxFolder
from gpuguard.sandbox.record import SandboxRecord
from gpuguard.sandbox.starting import start_hosts

_ENVIRONMENT = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "LANG=C.UTF-8",
)

# The shell puts a command with & into no group of its own, so setsid becomes it: $! is its pid.
_OWN_SESSION = 'setsid steps "$@" </dev/null >>/var/log/workload.log 2>&1 & echo $!'
_IN_SHELL = """
setsid sh -c '
    steps "$@" </dev/null >>/var/log/workload.log 2>&1 3>&- & echo $! >&3
    exec 3>&-
    wait
' sh "$@" 3>&1 </dev/null >/dev/null 2>&1 &
"""


class Sandbox:
    """A sandbox that is up."""

    def __init__(self, folder: SandboxFolder, record: SandboxRecord) -> None:
        self.folder = folder
        self.record = record

    @property
    def inventory(self) -> Path:
        """Return the inventory's path."""
        return self.folder.inventory

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts' names."""
        return tuple(host.name for host in self.record.hosts)

    def host(self, name: str) -> PracticeHost:
        """Return one host; raise UsageError if there is none of that name."""
        for host in self.record.hosts:
            if host.name == name:
                return PracticeHost(self.folder, self.record, host)
        raise UsageError(f"{name}: no such host in sandbox {self.record.name}", self._known())

    def address(self, name: str) -> str:
        """Return a host's address."""
        return self.record.address(self.host(name).host)

    def state(self, name: str) -> str:
        """Return `on`, `off` or `cut`."""
        return self.host(name).state()

    def enter(self, name: str, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` as root inside a host.

        Raises GpuguardError while the host's power is off.
        """
        init = self.host(name).init()
        if not init:
            raise GpuguardError(f"{name}: the power is off", f"gpuguard sandbox power {name} on")
        inside = ["nsenter", "-t", str(init.pid), "-m", "-u", "-i", "-n", "-p", "--"]
        return [*inside, "env", "-i", *_ENVIRONMENT, *argv]

    def run(
        self,
        name: str,
        argv: Sequence[str],
        stdin: str = "",
        check: bool = True,
        timeout: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root inside a host, past the network; its output comes as text.

        Raises GpuguardError with the command's own words if `check` and it fails.
        """
        # A pipe and not /dev/null: a file from outside the host would spoil a dump of its heirs.
        done = subprocess.run(
            self.enter(name, argv), input=stdin, capture_output=True, text=True, timeout=timeout
        )
        if check and done.returncode != 0:
            words = (done.stderr or done.stdout).strip()
            raise GpuguardError(f"{name}: {' '.join(argv)}: exit {done.returncode}: {words}")
        return done

    def start_workload(self, name: str, options: Sequence[str], in_shell: bool = False) -> int:
        """Start `steps` with `options` on a host, detached, and return its pid there.

        It leads a session of its own; with `in_shell` a shell that stays alive leads it instead.
        What it prints goes to /var/log/workload.log.
        """
        script = _IN_SHELL if in_shell else _OWN_SESSION
        done = self.run(name, ["sh", "-c", script, "sh", *options])
        return int(done.stdout)

    def path(self, name: str, path: str) -> Path:
        """Return a path inside a running host as the machine reaches it."""
        init = self.host(name).init()
        if not init:
            raise GpuguardError(f"{name}: the power is off", f"gpuguard sandbox power {name} on")
        return Path(f"/proc/{init.pid}/root") / path.lstrip("/")

    def log_kernel(self, name: str, text: str, priority: int = 3) -> None:
        """Append one record to a host's kernel log; `priority` 3 is an error."""
        log = self.path(name, "/dev/kmsg")
        sequence = len(log.read_text().splitlines())
        microseconds = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        with log.open("a") as file:
            file.write(f"{priority},{sequence},{microseconds},-;{text}\n")

    def power(self, name: str, state: str) -> None:
        """Switch a host `on` (and wait for its sshd) or `off` (everything in it dies at once)."""
        if state not in ("on", "off"):
            raise UsageError(f"{state}: a host's power is on or off")
        with locked(self.folder.lock):
            host = self.host(name)
            if state == "off":
                host.power_off()
            else:
                start_hosts([host])

    def reboot(self, name: str) -> None:
        """Switch a host off and on again: a new boot id, an empty /run and /dev/shm."""
        with locked(self.folder.lock):
            self.host(name).power_off()
            start_hosts([self.host(name)])

    def cut(self, name: str) -> None:
        """Take a host off the network; sessions with it hang."""
        with locked(self.folder.lock):
            self.host(name).set_cable(plugged=False)

    def heal(self, name: str) -> None:
        """Put a host back on the network."""
        with locked(self.folder.lock):
            self.host(name).set_cable(plugged=True)

    def down(self) -> None:
        """Remove the sandbox with everything that belongs to it."""
        teardown.take_down(self.folder)

    def _known(self) -> str:
        return f"it has {', '.join(self.hosts)}"
