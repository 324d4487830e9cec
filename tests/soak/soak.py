"""A soak: actions by a seed until the time is over, the promises checked after each."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpuguard.sandbox.fleet import Sandbox
from tests.soak.actions import HOSTS, JOBS, OPERATORS, SIZES, Action, generate
from tests.soak.hands import Hands
from tests.soak.promises import Promises
from tests.soak.truth import VISIT, Expected
from tests.soak.world import World, settled

_PARTS: tuple[tuple[str, ...], ...] = (
    (),
    ("child",),
    (),
    ("thread",),
    (),
    ("deleted",),
    (),
    ("shm",),
)
_TICK = "0.25"
_BACK_SECONDS = 120.0  # from the repair of all hosts until every job runs
_MOST_PARTIALS = 2
_SEEN_SECONDS = 3.0
_REST_SECONDS = 30.0  # from the repair until no procedure is open


class Broken(AssertionError):  # noqa: N818  # what is broken is a promise
    """A promise did not hold."""


@dataclass
class Soak:
    """One soak and its log."""

    sandbox: Sandbox
    seed: int
    folder: Path  # where the operators keep their state
    say: Callable[[str], None] = lambda line: None
    log: list[str] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        dice = random.Random(f"jobs of {self.seed}")  # noqa: S311
        self.sizes = dict(zip(JOBS, dice.sample(SIZES, len(SIZES)), strict=True))
        self.seeds = {job: dice.randbytes(8).hex() for job in JOBS}
        parts = dict(zip(JOBS, _PARTS, strict=True))
        world = World(self.sandbox, {seed: job for job, seed in self.seeds.items()})
        self.expected = {
            job: Expected(self.seeds[job], self.sizes[job], parts[job]) for job in JOBS
        }
        self.parts = parts
        self.promises = Promises(world, self.expected)
        self.hands = Hands(world, self.promises, self._inventory(), self.folder)
        self.mounts: dict[str, int] = {}

    def run(self, seconds: float) -> int:
        """Go on for `seconds`, then repair and check everything; return how many actions.

        Raises:
            Broken: a promise did not hold; the message holds seed, action, log and what was seen.
        """
        self._launch()
        self.mounts = {host: self.hands.world.mounts(host) for host in HOSTS}
        end = time.monotonic() + seconds
        for action in generate(self.seed):
            if time.monotonic() > end:
                break
            self._act(action)
        self._act(Action("repair", operator=OPERATORS[0]))
        return self.count

    def _act(self, action: Action) -> None:
        self.count += 1
        began = time.monotonic()
        before = {copy.job: copy.host for copy in self.hands.world.copies()}
        if action.verb == "repair":
            found, told = self._repair(action.operator)
        else:
            found, told = self.hands.do(action)
        took = time.monotonic() - began
        self._note(f"{self.count:4} {took:5.1f} s  {action}\n{'':14}→ {told}")
        found += self.promises.check() + self._vanished(before) + self._risen()
        if found:
            raise Broken(self._report(found))

    def _vanished(self, before: dict[str, str]) -> list[str]:
        """Find jobs that are nowhere now though neither a command nor a lost host ended them."""
        safe = {
            job: host
            for job, host in before.items()
            if self.hands.wish[job] == "running"
            and host not in self.hands.felled
            and job not in self.hands.orphaned
        }

        def lost() -> set[str]:
            return set(safe) - {copy.job for copy in self.hands.world.copies()}

        settled(lambda: not lost(), _SEEN_SECONDS)
        return [f"{job}: VANISHED from {safe[job]}, and no copy is anywhere" for job in lost()]

    def _risen(self) -> list[str]:
        """Find copies of jobs that a command said it had stopped."""
        stopped = {job for job, wish in self.hands.wish.items() if wish == "stopped"}

        def risen() -> list[str]:
            live = [copy for copy in self.hands.world.copies() if copy.job in stopped]
            return [f"{copy.job}: stopped on purpose, but alive on {copy.host}" for copy in live]

        settled(lambda: not risen(), _SEEN_SECONDS)
        return risen()

    def _launch(self) -> None:
        runs = []
        for number, job in enumerate(JOBS):
            flags = [f"--{part}" for part in self.parts[job]]
            words = ["steps", "--seed", self.seeds[job], "--size-mib", str(self.sizes[job])]
            words += ["--tick", _TICK, "--visit", str(VISIT), *flags]
            host = HOSTS[number % len(HOSTS)]
            run = self.hands.start(
                OPERATORS[0], "run", "jobs", "run", job, "--host", host, "--", *words, job=job
            )
            runs.append(run)
        for run in runs:
            self.hands.wait(run)
        failed = [run.errors() for run in runs if run.code != 0]
        if failed:
            raise Broken(self._report(failed))
        self.hands.wish = dict.fromkeys(JOBS, "running")
        saved = self.hands.start(OPERATORS[0], "look", "checkpoint", *JOBS)
        self.hands.wait(saved)
        found = [] if saved.code == 0 else [saved.errors()]
        found += self.promises.check()
        if found:
            raise Broken(self._report(found))

    def _repair(self, operator: str) -> tuple[list[str], str]:
        """Bring all hosts back, then every job that is not stopped on purpose."""
        told = [self.hands.mend()]
        found: list[str] = []
        began = time.monotonic()
        for run in list(self.hands.open):
            if not self.hands.wait(run, _BACK_SECONDS):
                found.append(f"{' '.join(run.words)}: did not end though all hosts are back")
                run.process.kill()
            wrong, how = self.hands.judge(run)
            found += wrong
            told.append(how)
        first = OPERATORS.index(operator)
        turn = first
        while time.monotonic() - began < _BACK_SECONDS:
            missing = self._missing()
            if not missing:
                break
            for job in missing:
                run = self.hands.command(OPERATORS[turn % 2], "restore", job)
                self.hands.wait(run)
                wrong, how = self.hands.judge(run)
                found += wrong
                told.append(how)
            turn += 1
        told.append(f"all was back after {time.monotonic() - began:.1f} s")
        found += [
            f"{job}: does not run {_BACK_SECONDS:g} s after the repair" for job in self._missing()
        ]
        for job in JOBS:
            if self.hands.promises.running(job):
                self.hands.wish[job] = "running"
                if not self.promises.grows(job):
                    found.append(f"{job}: writes no steps where it runs")
            found += self.promises.rehash(job)
        return found + self._at_rest(), "; ".join(told)

    def _missing(self) -> list[str]:
        running = {copy.job for copy in self.hands.world.copies() if not copy.frozen}
        frozen = {copy.job for copy in self.hands.world.copies() if copy.frozen}
        wished = {job for job, wish in self.hands.wish.items() if wish != "stopped"}
        return [job for job in JOBS if job not in running and (job in wished or job in frozen)]

    def _at_rest(self) -> list[str]:
        """Look at what only holds while nobody is at work."""
        world = self.hands.world

        def idle() -> bool:
            return not any(world.open_procedures(host) for host in HOSTS)

        if not settled(idle, _REST_SECONDS):
            left = {host: world.open_procedures(host) for host in HOSTS}
            return [f"procedures without an end: {left}"]
        found = [text for job in JOBS for text in self.promises.look(job)]
        return found + self._listed() + self._leftovers()

    def _listed(self) -> list[str]:
        """Compare what gpuguard takes for the newest checkpoint with what lies in the store."""
        run = self.hands.start(OPERATORS[1], "look", "checkpoints", "list", "-o", "json")
        self.hands.wait(run)
        items = run.json.get("items", [])
        found = []
        for job in JOBS:
            newest = self.promises.newest(job)
            listed = [i for i in items if i["job"] == job and i["state"] == "durable"]
            if newest and (not listed or listed[0]["checkpoint"] != newest.folder.name):
                name = listed[0]["checkpoint"] if listed else "none"
                found.append(f"{job}: {newest.folder.name} is newest, {name} is listed as newest")
        return found

    def _leftovers(self) -> list[str]:
        world = self.hands.world
        found = []
        for job in JOBS:
            partials = world.partials(job)
            if len(partials) > _MOST_PARTIALS:
                found.append(f"{job}: {len(partials)} partial checkpoints: {partials}")
        for host in HOSTS:
            stage = world.disk(host) / "stage"
            found += [f"{host}: {p.name} is left on the stage" for p in _items(stage)]
            if world.mounts(host) > self.mounts[host]:
                found.append(f"{host}: {world.mounts(host)} mounts, {self.mounts[host]} at first")
            tables = self.sandbox.run(host, ["nft", "list", "tables"], check=False).stdout
            found += [f"{host}: {line}" for line in tables.splitlines() if "CRIU" in line]
        roles = [
            (p.host, p.role, p.pid) for p in world.processes() if p.role in ("criu", "watchdog")
        ]
        return found + [f"a process is left: {role}" for role in roles]

    def _inventory(self) -> Path:
        path = self.sandbox.inventory.with_name("soak.yaml")
        text = self.sandbox.inventory.read_text()
        path.write_text(text.replace("connect_timeout: 5", "connect_timeout: 2"))
        return path

    def _note(self, line: str) -> None:
        self.log.append(line)
        self.say(line)

    def _report(self, found: list[str]) -> str:
        seen = [
            f"  {copy.job}: {copy.host} {'frozen' if copy.frozen else 'running'}"
            for copy in self.hands.world.copies()
        ]
        return "\n".join(
            [
                f"seed {self.seed}, action {self.count}: {len(found)} broken",
                *(f"  {text}" for text in found),
                "actions:",
                *self.log,
                "copies now:",
                *sorted(seen),
                f"wishes: {self.hands.wish}",
            ]
        )


def _items(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []
