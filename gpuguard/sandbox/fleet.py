"""The practice fleet: brought up, used and taken down."""

import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from gpuguard.model.errors import GpuguardError, UsageError
from gpuguard.sandbox import addresses, identity, network, teardown
from gpuguard.sandbox.base import Say, ensure_base
from gpuguard.sandbox.host import PracticeHost, make_disk
from gpuguard.sandbox.lock import locked
from gpuguard.sandbox.places import SandboxFolder, sandbox_folder
from gpuguard.sandbox.recipe import CriuKind, Recipe
from gpuguard.sandbox.record import HostRecord, SandboxRecord, load_record, save_record
from gpuguard.sandbox.requirements import require_machine

_MOST_HOSTS = 200
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
                _start([host])

    def reboot(self, name: str) -> None:
        """Switch a host off and on again: a new boot id, an empty /run and /dev/shm."""
        with locked(self.folder.lock):
            self.host(name).power_off()
            _start([self.host(name)])

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
        down(self.record.name, self.folder.path.parent)

    def _known(self) -> str:
        return f"it has {', '.join(self.hosts)}"


def up(
    name: str = "default",
    hosts: int | None = None,
    old_criu: bool = False,
    say: Say = lambda text: None,
    root: Path | None = None,
) -> Sandbox:
    """Bring a sandbox up, or what is missing of it, and wait until every sshd listens.

    `hosts` of None means as many as it has, 3 for a new one; with `old_criu` the last host of a
    new sandbox carries CRIU 4.1.1. If it fails halfway, what this call started is taken back.
    Raises RefusedError where no sandbox can stand, GpuguardError with the step that failed.
    """
    if hosts is not None and not 1 <= hosts <= _MOST_HOSTS:
        raise UsageError(f"a sandbox has 1 to {_MOST_HOSTS} hosts, not {hosts}")
    require_machine()
    folder = sandbox_folder(name, root)
    bases = _bases(folder, hosts, old_criu, say)
    folder.path.mkdir(parents=True, exist_ok=True)
    with locked(folder.lock):
        fresh = load_record(folder.record) is None
        try:
            record = _settle_record(folder, name, bases)
            _raise_hosts(folder, record)
        except BaseException:
            if fresh:
                teardown.remove_sandbox(folder)
            raise
    return Sandbox(folder, record)


def find(name: str = "default", root: Path | None = None) -> Sandbox:
    """Return a sandbox that was brought up; raise UsageError if there is none of that name."""
    folder = sandbox_folder(name, root)
    record = load_record(folder.record)
    if record is None:
        raise UsageError(f"there is no sandbox {name}", f"gpuguard sandbox up --name {name}")
    return Sandbox(folder, record)


def down(name: str = "default", root: Path | None = None) -> bool:
    """Remove a sandbox, also half of one; say whether there was any.

    Raises GpuguardError naming what does not go.
    """
    folder = sandbox_folder(name, root)
    if not folder.path.exists():
        subnet = addresses.claimed_subnet(folder.path)
        if subnet is None:
            return False
        folder.path.mkdir(parents=True)
    with locked(folder.lock):
        teardown.remove_sandbox(folder)
    return True


def _bases(
    folder: SandboxFolder, hosts: int | None, old_criu: bool, say: Say
) -> list[tuple[CriuKind, Path]]:
    """Return kind and base of every host there is to be, building what the cache lacks."""
    record = load_record(folder.record)
    have = record.hosts if record else ()
    count = max(len(have), hosts or (len(have) or 3))
    kinds = [host.kind for host in have]
    kinds += [CriuKind.CURRENT] * (count - len(have))
    if old_criu and not have:
        kinds[-1] = CriuKind.OLD
    recipe = Recipe()
    built = {kind: ensure_base(kind, recipe, say) for kind in sorted(set(kinds))}
    return [(kind, built[kind]) for kind in kinds]


def _settle_record(
    folder: SandboxFolder, name: str, bases: list[tuple[CriuKind, Path]]
) -> SandboxRecord:
    """Write down what the sandbox is to be, its range claimed."""
    old = load_record(folder.record)
    subnet = addresses.claim_subnet(folder.path, old.subnet if old else None)
    hosts = list(old.hosts) if old else []
    for number, (kind, base) in enumerate(bases, 1):
        if number > len(hosts):
            hosts.append(HostRecord(f"node{number}", number, kind, str(base)))
        elif not Path(hosts[number - 1].base).exists():
            hosts[number - 1] = replace(hosts[number - 1], base=str(base))
    record = SandboxRecord(name, subnet, tuple(hosts))
    save_record(folder.record, record)
    return record


def _raise_hosts(folder: SandboxFolder, record: SandboxRecord) -> None:
    folder.store.mkdir(exist_ok=True, mode=0o700)
    network.ensure_bridge(record)
    public, names = identity.make_client_key(folder), identity.hosts_file(record)
    hosts = [PracticeHost(folder, record, host) for host in record.hosts]
    _each(hosts, lambda host: make_disk(host, names, public))
    identity.write_inventory(folder, record)
    _start(hosts)


def _start(hosts: list[PracticeHost]) -> None:
    """Start hosts side by side; if one fails, those that this call started are ended again."""
    off = [host for host in hosts if not host.init()]
    try:
        _each(hosts, _bring_up)
    except BaseException:
        _each(off, PracticeHost.power_off)
        raise


def _bring_up(host: PracticeHost) -> None:
    host.power_on()
    host.wait_ready()


def _each(hosts: list[PracticeHost], act: Callable[[PracticeHost], None]) -> None:
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(act, hosts))
