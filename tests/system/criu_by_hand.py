"""A job moved between practice hosts by nothing but CRIU's own commands."""

import subprocess
import time
from dataclasses import dataclass

from gpuguard.sandbox.fleet import Sandbox

# pid 1 of a job's own namespaces: starts it, or CRIU, as its child and reaps.
_SUPERVISOR = """
import ctypes, os, sys
last, command = sys.argv[1], sys.argv[2:]
open("/proc/sys/kernel/ns_last_pid", "w").write(last)
if os.fork() == 0:
    if command[0] != "criu":
        os.setsid()
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    os.execvp(command[0], command)
while True:
    try:
        os.wait()
    except ChildProcessError:
        sys.exit()
"""
_UNSHARE = [
    *("unshare", "-p", "-i", "-m", "--propagation", "slave", "--fork", "--mount-proc"),
]
_OPTIONS = [
    *("-v4", "--no-default-config", "--libdir", "/tmp/empty", "--manage-cgroups=ignore"),
    *("--tcp-close", "--file-locks", "--ghost-limit", "16777216"),
]
_CAPTURED = ("/srv/w.log", "/srv/w.plain", "/var/log/workload.log")


@dataclass
class Place:
    """Where the job is: its host, its supervisor as the host sees it (None: none) and its pid."""

    host: str
    supervisor: int | None
    pid: int


class HandMover:
    """Starts a job on one host of a sandbox and moves it on, by hand."""

    def __init__(self, sandbox: Sandbox, options: list[str], shell_job: bool = False) -> None:
        self._sandbox = sandbox
        self._criu = [*_OPTIONS, *(["--shell-job"] if shell_job else [])]
        self._options = options
        self._generation = 0
        for host in sandbox.hosts:
            sandbox.run(host, ["tee", "/usr/local/lib/supervisor.py"], stdin=_SUPERVISOR)
            sandbox.run(host, ["mkdir", "-p", "/tmp/empty", "/srv/w"])
            sandbox.run(host, ["rm", "-rf", "/srv/gpuguard/by-hand", *_CAPTURED])

    def start(self, host: str) -> Place:
        """Start the job under a supervisor, as pid 1000 of its own namespaces."""
        supervisor = self._supervise(host, "999", ["steps", *self._options])
        return Place(host, supervisor, 1000)

    def move(self, place: Place, target: str) -> Place:
        """Move the job: source stopped, restored stopped, source ended, target let go."""
        self._generation += 1
        images = f"/srv/gpuguard/by-hand/{self._generation}"
        self._dump(place, images)
        self._copy_files(place.host, target, images)
        words = ["restore", "-D", images, "-o", "restore.log", *self._criu]
        command = ["criu", *words, "-d", "--restore-sibling", "--leave-stopped"]
        supervisor = self._supervise(target, "20000", command)
        self._wait_stopped(target, supervisor, place.pid, images)
        self.end(place)
        moved = Place(target, supervisor, place.pid)
        self._each_process(moved, "CONT")
        return moved

    def log(self, place: Place, path: str = "/srv/w.log") -> str:
        """Return the job's step log on the host where it is; empty while there is none."""
        return self._run(place.host, ["cat", path], check=False).stdout

    def _supervise(self, host: str, last: str, command: list[str]) -> int:
        words = [*_UNSHARE, "setsid", "python3", "-I", "/usr/local/lib/supervisor.py", last]
        script = 'setsid "$@" </dev/null >>/var/log/workload.log 2>&1 & echo $!'
        keeper = self._run(host, ["sh", "-c", script, "sh", *words, *command]).stdout.strip()
        for _ in range(200):
            found = self._run(host, ["pgrep", "-P", keeper], check=False).stdout.split()
            if found:
                return int(found[0])
            time.sleep(0.01)
        raise AssertionError(f"{host}: no supervisor: {self._run(host, ['ps', 'ax']).stdout}")

    def _dump(self, place: Place, images: str) -> None:
        criu = ["criu", "dump", "-t", str(place.pid), "-o", "dump.log", *self._criu]
        # From an IPC namespace that is not the job's: only then does CRIU take SysV segments along.
        enter = ["unshare", "-i"]
        if place.supervisor:
            enter = ["nsenter", "-t", str(place.supervisor), "-p", "-m"]
        script = 'mkdir -p "$0"; exec 9<"$0"; exec "$@" -D /proc/self/fd/9 --leave-stopped'
        done = self._run(place.host, ["sh", "-c", script, images, *enter, *criu], check=False)
        assert done.returncode == 0, self._last_lines(place.host, f"{images}/dump.log")

    def _copy_files(self, source: str, target: str, images: str) -> None:
        pack = ["tar", "-cPf", f"{images}/files.tar", *_CAPTURED]
        self._run(source, pack)
        self._run(target, ["tar", "-xPf", f"{images}/files.tar"])

    def _wait_stopped(self, host: str, supervisor: int, pid: int, images: str) -> None:
        for _ in range(300):
            words = ["nsenter", "-t", str(supervisor), "-p", "-m", "cat", f"/proc/{pid}/stat"]
            stat = self._run(host, words, check=False).stdout
            if stat.rpartition(")")[2].split()[:1] == ["T"]:
                return
            time.sleep(0.01)
        raise AssertionError(self._last_lines(host, f"{images}/restore.log"))

    def end(self, place: Place) -> None:
        """End the job where it is."""
        if place.supervisor:
            self._run(place.host, ["kill", "-KILL", str(place.supervisor)])
        else:
            self._each_process(place, "KILL")

    def _each_process(self, place: Place, signal: str) -> None:
        """Send a signal to every process of the job, found by its program's name."""
        enter = ["nsenter", "-t", str(place.supervisor), "-p", "-m"] if place.supervisor else []
        self._run(place.host, [*enter, "pkill", f"-{signal}", "-f", "/usr/local/bin/steps"])

    def _last_lines(self, host: str, path: str) -> str:
        return self._run(host, ["sh", "-c", f"grep -E 'Error|Warn' {path} | tail -n 15"]).stdout

    def _run(
        self, host: str, argv: list[str], check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return self._sandbox.run(host, argv, check=check)
