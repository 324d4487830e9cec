"""A wave: one procedure for each point of a verb, all parked at theirs, struck at once, recovered.

Recovery is what a user would do: the next command, `ops resume` after a killed operator, the
`restore` that a failed command names.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.system.crew import LIVE, Crew, moving
from tests.system.cutting import Caught, Point, Watcher
from tests.system.kit import Ended
from tests.system.points import Verb
from tests.system.typist import Command

# While store or stage is away nobody can remove what was begun there: it stays, in the store
# marked as partial, until the rule for old ones takes it.
OUT_OF_REACH = ("store gone", "store read-only", "store full", "stage full", "stage read-only")
_TRIES = 3
_PARK_SECONDS = 60.0


@dataclass
class Case:
    """One strike: what was cut where, and what came of it."""

    verb: Verb
    victim: str
    point: Point
    job: str
    source: str
    good: str = ""  # the last durable checkpoint before the strike
    caught: Caught | None = None
    command: Command | None = None
    where: str = ""
    ended: Ended | None = None
    operation: dict[str, Any] = field(default_factory=dict)
    shown: str = ""
    recovered_by: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)  # host → state, at the end
    copies: list[tuple[str, int]] = field(default_factory=list)
    newest: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """Return where the job is, in words of the table."""
        live = [f"runs on the {self._role(host)}" for host, state in self.places.items()
                if state == "running"]  # fmt: skip
        if live:
            return " and ".join(live)
        newer = self.newest.get("checkpoint") != self.good
        return "stopped, saved" if newer else "stopped, saved before"

    def _role(self, host: str) -> str:
        return "source" if host == self.source else "target"


Place = tuple[Verb, Point]
Heal = Callable[[], None]
# Strikes what is to die at the parked cases and lets go on what is not; what it returns is done
# once the commands have ended, or at once where they wait for it.
Strike = Callable[[Crew, list[Case]], Heal | None]


def run_wave(crew: Crew, victim: str, strike: Strike, places: Sequence[Place]) -> list[Case]:
    """Cut a procedure at every place at once, recover, and look at all there is from outside."""
    source = crew.busiest()
    target = next(host for host in crew.sandbox.hosts if host != source)
    cases = _park(crew, victim, places, (source, target))
    for case in cases:
        assert case.caught is not None
        case.where = case.caught.where
    heal = strike(crew, cases)
    _await_commands(crew, cases)
    if heal is not None:
        heal()
    _recover(crew, cases)
    _look(crew, cases)
    return cases


def _park(crew: Crew, victim: str, places: Sequence[Place], hosts: tuple[str, str]) -> list[Case]:
    done: list[Case] = []
    missing = list(places)
    told: list[str] = []
    for _ in range(_TRIES):
        taken = {case.job for case in done}
        jobs = [job for job in crew.ready(len(places), hosts[0]) if job not in taken]
        cases = [
            Case(verb, victim, point, job, hosts[0])
            for (verb, point), job in zip(missing, jobs, strict=False)
        ]
        _prepare(crew, cases, hosts[0])
        _begin(crew, cases, hosts)
        done += [case for case in cases if case.caught and case.caught.parked]
        reached = {(case.verb, case.point) for case in done}
        missing = [place for place in places if place not in reached]
        if not missing:
            return done
        missed = [case.command for case in cases if case.command and case not in done]
        told = [f"{ended.code}: {ended.err}" for ended in crew.typist.wait(missed)]
    raise AssertionError(f"never caught at {[str(point) for _, point in missing]}: {told}")


def _prepare(crew: Crew, cases: list[Case], source: str) -> None:
    """Note the last good checkpoint; for a restore, stop the jobs."""
    for case in cases:
        if case.verb.name == "restore":
            crew.session(source).call("jobs.stop", name=case.job, grace=0.0, timeout=30)
    listed = crew.checkpoints(source)
    for case in cases:
        durable = [c["checkpoint"] for c in listed[case.job] if c["state"] == "durable"]
        assert durable, f"{case.job} has no durable checkpoint: {listed[case.job]}"
        case.good = durable[0]


def _begin(crew: Crew, cases: list[Case], hosts: tuple[str, str]) -> None:
    source, target = hosts
    for case in cases:
        host = target if case.verb.on_target else source
        case.caught = Caught(case.job, host, case.point)
    watcher = Watcher(crew.sandbox, [case.caught for case in cases if case.caught])
    watcher.learn()
    for case in cases:
        filled = {"JOB": case.job, "TARGET": target}
        case.command = crew.typist.start(*(filled.get(word, word) for word in case.verb.words))
    commands = {case.job: case.command for case in cases if case.command}

    def ended(job: str) -> bool:
        crew.typist.listen()
        return commands[job].code is not None

    watcher.park_all(_PARK_SECONDS, ended)


def _await_commands(crew: Crew, cases: list[Case]) -> None:
    commands = [case.command for case in cases if case.command]
    ended = crew.typist.wait(commands, 180)
    for case, how in zip(cases, ended, strict=True):
        case.ended = how


def _recover(crew: Crew, cases: list[Case]) -> None:
    """Do what a user would: resume what was cut off, then restore what is not there."""
    operations = _operations(crew)
    for case in cases:
        case.operation = _of(operations, case)
    cut = [case for case in cases if case.ended and case.ended.code < 0]
    resumed = []
    for case in cut:
        word = "abort" if case.victim.endswith("abort") else "resume"
        case.recovered_by.append(f"ops {word}")
        resumed.append(crew.typist.start("ops", word, case.operation["id"]))
    for case, ended in zip(cut, crew.typist.wait(resumed, 180), strict=True):
        if ended.code == 5:  # too late to take back: the hint is followed
            case.recovered_by[-1:] = ["ops abort, too late", "ops resume"]
            ended = crew.typist.run("ops", "resume", case.operation["id"])
        if ended.code not in (0, 1):
            case.problems.append(f"ops said {ended.code}: {ended.err}")
    crew.next_contact()
    states = crew.states()
    lost = [case for case in cases if _wants_restore(case, states[case.job])]
    commands = [crew.typist.start("restore", case.job, "--yes") for case in lost]
    for case, ended in zip(lost, crew.typist.wait(commands, 180), strict=True):
        case.recovered_by.append("restore")
        if ended.code != 0:
            case.problems.append(f"restore said {ended.code}: {ended.err}")


def _wants_restore(case: Case, records: dict[str, dict[str, Any]]) -> bool:
    if any(record["state"] in LIVE for record in records.values()):
        return False
    notes = [str(record["note"] or "") for record in records.values()]
    stopped = case.verb.name == "checkpoint --stop" and any("on purpose" in n for n in notes)
    return not stopped


def _operations(crew: Crew) -> list[dict[str, Any]]:
    listed = crew.typist.run("ops", "list", "-n", "200", "-o", "json")
    assert listed.code == 0, listed.err
    items: list[dict[str, Any]] = listed.json["items"]
    return items


def _of(operations: list[dict[str, Any]], case: Case) -> dict[str, Any]:
    verb = case.verb.words[0]
    return next(op for op in operations if op["verb"] == verb and op["jobs"] == [case.job])


def _look(crew: Crew, cases: list[Case]) -> None:
    shows = [crew.typist.start("ops", "show", case.operation["id"]) for case in cases]
    states, copies = crew.states(), crew.copies()
    listed = crew.checkpoints(cases[0].source)
    for case in cases:
        case.places = {host: str(r["state"]) for host, r in states[case.job].items()}
        case.copies = copies[case.job]
        _judge_checkpoints(crew, case, listed[case.job])
    _judge_run(crew, cases)
    for case, ended in zip(cases, crew.typist.wait(shows), strict=True):
        case.shown = ended.out
    _judge_leftovers(crew, cases)


def _judge_checkpoints(crew: Crew, case: Case, listed: list[dict[str, Any]]) -> None:
    durable = [item["checkpoint"] for item in listed if item["state"] == "durable"]
    case.newest = listed[0] if listed else {}
    if case.newest.get("state") != "durable":
        case.problems.append(f"the newest is not durable: {case.newest}")
    if case.good not in durable:
        case.problems.append(f"the last good checkpoint {case.good} is gone")
    for checkpoint in {case.good, *durable[:1]}:
        damage = crew.damage(case.source, case.job, checkpoint)
        if damage:
            case.problems.append(f"{checkpoint} is damaged: {damage}")


def _judge_leftovers(crew: Crew, cases: list[Case]) -> None:
    left = crew.leftovers()
    if cases[0].victim in OUT_OF_REACH:
        crew.sweep()
        left = [line for line in left if ".partial-" not in line and "stage" not in line]
    if left:
        cases[0].problems.append(f"left behind by the wave: {left}")


def _judge_run(crew: Crew, cases: list[Case]) -> None:
    places = {
        case.job: host for case in cases for host, state in case.places.items() if state in LIVE
    }
    still = moving(crew, places)
    for case in cases:
        if case.job in still:
            case.problems.append("it does not move")
        host = places.get(case.job)
        if host is not None:
            case.problems += crew.chain_findings(case.job, host)
        expected = 0 if host is None else 1
        if len(case.copies) != expected or any(h != host for h, _ in case.copies):
            case.problems.append(f"copies: {case.copies}, hosts say {case.places}")
        live = [state for state in case.places.values() if state in LIVE]
        if live not in ([], ["running"]):
            case.problems.append(f"hosts say {case.places}")
