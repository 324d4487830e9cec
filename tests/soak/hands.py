"""Carry actions out: operators at the real command line, and what strikes while they work.

The real command line and not the library: an operator has to be a process of his own to be killed,
and argument lists, exit codes and the journal in SQLite belong to what is promised.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.actions import Action
from tests.soak.promises import Promises
from tests.soak.world import World, settled

_BEGIN_SECONDS = 12.0
_AFTER_STRIKE_SECONDS = 6.0
_COMMAND_SECONDS = 170.0
_WORDS = {
    "checkpoint": ("checkpoint",),
    "stop": ("checkpoint", "--stop"),
    "migrate": ("migrate", "--yes"),
    "restore": ("restore", "--yes"),
}
DOCUMENTED = frozenset({0, 1, 3, 4, 5, 75, 130, 143})


@dataclass
class Run:
    """A command that was started."""

    verb: str
    job: str
    words: tuple[str, ...]
    process: subprocess.Popen[str]
    out: Path
    err: Path
    killed: bool = False

    @property
    def code(self) -> int | None:
        return self.process.poll()

    def text(self) -> str:
        return self.out.read_text()

    def errors(self) -> str:
        return self.err.read_text()

    @property
    def json(self) -> dict[str, Any]:
        try:
            data = json.loads(self.text())
        except ValueError:
            return {}
        return data if isinstance(data, dict) else {}


@dataclass
class Hands:
    """Two operators and everything that can happen to a fleet."""

    world: World
    promises: Promises
    inventory: Path
    state: Path
    started: int = 0  # commands so far; numbers their outputs
    open: list[Run] = field(default_factory=list)  # commands that still run
    felled: set[str] = field(default_factory=set)  # hosts that lost power in this action
    orphaned: set[str] = field(default_factory=set)  # jobs whose life line was cut in this action
    # running, stopped, or either where a command was cut off
    wish: dict[str, str] = field(default_factory=dict)

    def start(self, operator: str, verb: str, *words: str, job: str = "") -> Run:
        """Start a command."""
        home = self.state / operator
        environment = {
            **os.environ,
            "GPUGUARD_INVENTORY": str(self.inventory),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_RUNTIME_DIR": str(home / "run"),
        }
        self.started += 1
        home.mkdir(parents=True, exist_ok=True)
        out, err = (home / f"{self.started:05}.{kind}" for kind in ("out", "err"))
        with out.open("w") as out_file, err.open("w") as err_file:
            process = subprocess.Popen(
                [sys.executable, "-m", "gpuguard", *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out_file,
                stderr=err_file,
                text=True,
                start_new_session=True,
            )
        return Run(verb, job, words, process, out, err)

    def command(self, operator: str, verb: str, job: str, host: str = "") -> Run:
        """Start a command on a job."""
        to = ("--to", host) if host else ()
        return self.start(operator, verb, *_WORDS[verb], job, *to, "-o", "json", job=job)

    def wait(self, run: Run, seconds: float = _COMMAND_SECONDS) -> bool:
        """Wait for a command to end; False if it still runs then and is kept in mind."""
        try:
            run.process.wait(seconds)
        except subprocess.TimeoutExpired:
            if run not in self.open:
                self.open.append(run)
            return False
        if run in self.open:
            self.open.remove(run)
        return True

    def do(self, action: Action) -> tuple[list[str], str]:
        """Carry an action out; return what is wrong with how it ended, and how it ended."""
        self.felled, self.orphaned = set(), set()
        if action.strike:
            return self._struck(action)
        if action.other:
            return self._twins(action)
        if action.verb == "prune":
            return self._prune(action)
        if action.verb in _WORDS:
            run = self.command(action.operator, action.verb, action.job, action.host)
            self.wait(run)
            return self.judge(run)
        return [], self._strike(action.verb, action.job, action.host)

    def judge(self, run: Run) -> tuple[list[str], str]:
        """Say whether a command ended as documented, and learn from it what is to hold."""
        name = f"{' '.join(run.words)}"
        if run.code is None:
            self._doubt(run)
            return [], f"{name}: still runs"
        told = f"{name}: exit {run.code}"
        found = []
        if run.killed:
            self._doubt(run)
            return [], told + " (killed)"
        data = run.json
        if run.code not in DOCUMENTED or "gpuguard itself failed" in run.text():
            found.append(f"{told}, which is not documented: {run.text()}\n{run.errors()}")
        if "Traceback" in run.errors():
            found.append(f"{told}: a traceback: {run.errors()}")
        if run.code == 0:
            found += self._learn(run, data)
        elif run.verb in ("stop", "migrate", "restore") and run.code not in (5, 75):
            # Which side of the commit it failed on is its message's to say; both are allowed.
            # 5 and 75 say that nothing was changed.
            self._doubt(run)
        return found, told + _reason(data)

    def _doubt(self, run: Run) -> None:
        """Expect nothing of a job whose command was cut off; a plain checkpoint ends no job."""
        if run.verb != "checkpoint":
            self.wish[run.job] = "either"

    def mend(self) -> str:
        """Bring every host back on the network and to power."""
        done = []
        for host in self.world.sandbox.hosts:
            if self.world.sandbox.host(host).folder.cut.exists():
                self.world.sandbox.heal(host)
                done.append(f"heal {host}")
            if self.world.sandbox.state(host) == "off":
                self.world.sandbox.power(host, "on")
                done.append(f"power on {host}")
        return ", ".join(done) or "all hosts were there"

    def place(self, job: str) -> str:
        """Return the host of the job's running copy, or of any copy, or nothing."""
        copies = [copy for copy in self.world.copies() if copy.job == job]
        return min(copies, key=lambda copy: copy.frozen).host if copies else ""

    def _learn(self, run: Run, data: dict[str, Any]) -> list[str]:
        self.wish[run.job] = "stopped" if run.verb == "stop" else "running"
        if run.verb in ("checkpoint", "stop"):
            name = str(data["items"][0]["checkpoint"])
            if not (self.world.store / run.job / name / "manifest.json").exists():
                return [f"{run.job}: exit 0, but {name} is not in the store"]
        return []

    def _struck(self, action: Action) -> tuple[list[str], str]:
        before = self.world.procedure_count(action.job)
        source = self.place(action.job)
        run = self.command(action.operator, action.verb, action.job, action.host)
        begun: dict[str, set[str]] = {}

        def has_begun() -> bool:
            for host, names in self.world.procedure_count(action.job).items():
                begun[host] = names - before[host]
            return any(begun.values()) or run.code is not None

        settled(has_begun, _BEGIN_SECONDS, pause=0.01)
        time.sleep(action.delay)
        busy = [host for host, names in begun.items() if names]
        target = action.host or next((host for host in busy if host != source), "")
        where = {"source": source or target, "target": target}.get(action.strike.split()[-1], "")
        if action.strike == "kill operator":
            with contextlib.suppress(ProcessLookupError):
                os.kill(run.process.pid, signal.SIGKILL)
            run.killed = True
            said = "operator killed"
        else:
            said = self._strike(action.strike, action.job, where or (busy or [source])[0])
        self.wait(run, _AFTER_STRIKE_SECONDS)
        found, told = self.judge(run)
        if action.strike == "kill runner and watchdog":
            # Only now may nobody be at work: the next contact has to settle it.
            self.wait(self.start(action.operator, "look", "jobs", "list"))
        return found, f"{told}; struck: {said}"

    def _twins(self, action: Action) -> tuple[list[str], str]:
        other = "bob" if action.operator == "ann" else "ann"
        runs = [
            self.command(action.operator, action.verb, action.job, action.host),
            self.command(other, action.other, action.job),
        ]
        judged = [self.judge(run) for run in runs if self.wait(run) or True]
        self.wish[action.job] = "either"
        return [text for found, _ in judged for text in found], " | ".join(t for _, t in judged)

    def _prune(self, action: Action) -> tuple[list[str], str]:
        kept = sorted(self.world.kept(action.job).values(), key=lambda one: one.order)
        told, found = [], []
        for one in kept[:-2]:
            name = one.folder.name
            self.promises.removed.add(name)
            run = self.start(
                action.operator,
                "rm",
                "checkpoints",
                "rm",
                action.job,
                name,
                "--yes",
                job=action.job,
            )
            self.wait(run)
            told.append(f"{name}: {run.code}")
            if run.code not in DOCUMENTED:
                found.append(f"checkpoints rm {name}: exit {run.code}: {run.errors()}")
        return found, "removed " + (", ".join(told) or "none")

    def _strike(self, deed: str, job: str, host: str) -> str:
        sandbox = self.world.sandbox
        if deed.startswith("kill "):
            return self._kill(deed.removeprefix("kill "), job, host)
        if not host:
            return "no host to strike"
        what = deed.removesuffix(" source").removesuffix(" target")
        if what == "cut":
            if sandbox.state(host) == "on":
                sandbox.cut(host)
        elif what == "heal":
            if sandbox.state(host) == "cut":
                sandbox.heal(host)
        elif what == "power off":
            self.felled.add(host)
            sandbox.power(host, "off")
        elif what == "power on":
            sandbox.power(host, "on")
        elif what == "reboot" and sandbox.state(host) != "off":
            self.felled.add(host)
            sandbox.reboot(host)
        return f"{what} {host}"

    def _kill(self, who: str, job: str, host: str) -> str:
        if who == "supervisor":
            host = self.place(job) or host
            self.orphaned.add(job)
        processes = [p for p in self.world.processes() if p.host == host]
        watchdogs = {p.pid: p for p in processes if p.role == "watchdog"}
        ours = {pid for pid, p in watchdogs.items() if self._of(p.words, job, host)}
        runners = {pid for pid in ours if watchdogs[pid].parent in ours}
        roots = {p.space for p in processes if p.role == "steps" and _named(p.words, self, job)}
        chosen = {
            "runner": runners,
            "watchdog": ours - runners,
            "runner and watchdog": ours,
            "agent": {p.pid for p in processes if p.role == "agent"},
            "supervisor": {p.pid for p in processes if p.role == "supervisor" and p.space in roots},
        }[who]
        for pid in sorted(chosen):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return f"{who} on {host or '?'}: {len(chosen)} killed"

    def _of(self, words: tuple[str, ...], job: str, host: str) -> bool:
        """Tell whether a watchdog's command line names a procedure of this job."""
        return any(name in words for name, of, _ in self.world.open_procedures(host) if of == job)


def _named(words: tuple[str, ...], hands: Hands, job: str) -> bool:
    return any(hands.world.seeds.get(word) == job for word in words)


def _reason(data: dict[str, Any]) -> str:
    error = data.get("error")
    items = data.get("items") or [{}]
    error = error or (items[0].get("error") if isinstance(items[0], dict) else None)
    return f" ({error['message'][:160]})" if error else ""
