"""Cut every procedure at every step: the job is there once, or stopped on purpose, and all is told.

Every step is tried with the death of the runner, of runner and watchdog together, of the agent
(and with it the link), of the operator, and of the host's power; places within a step with runner
and power, and with `make failure-points` with every one of these. The other victims are tried only
where they can make a difference:

* the watchdog alone: the runner goes on and nobody notices; one point a verb shows it;
* the cable: what dies is the link, as with the agent, only later and without a word;
* CRIU: it is at work in `dump` alone; in `restore` it lives in namespaces that end with it;
* the supervisor: the job dies with it, so it matters where its tree stands still or is young;
* stage and store: only the steps that write or read there;
* `operator, abort`: where a word can still take the move back, and where it cannot any more.

A clock that jumps is no strike here: hosts of the practice fleet share the machine's clock.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuguard.sandbox import fleet
from gpuguard.sandbox.requirements import refusal
from tests.system import points as at
from tests.system.crew import Crew
from tests.system.cutting import Point
from tests.system.failure_table import write_table
from tests.system.kit import Operator
from tests.system.points import CHECKPOINT, RESTORE, SOURCE, STOP, TARGET, VERBS, Verb
from tests.system.strikes import STRIKES
from tests.system.typist import Typist
from tests.system.waves import Case, Place, run_wave

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(400),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]
EVERYWHERE = ("runner", "runner+watchdog", "agent", "operator", "power")
DOCUMENTED = {0, 1, 3, 4, 5, 75}
TABLE = os.environ.get("FAILURE_POINTS_TABLE")  # set by make failure-points
EVERY_PLACE = os.environ.get("FAILURE_POINTS") == "all"  # also those below that cost much time
Wave = tuple[str, tuple[Place, ...]]


def _some(verb: Verb, *places: tuple[str, str] | str) -> tuple[Place, ...]:
    named = [place if isinstance(place, tuple) else (place, "") for place in places]
    assert set(named) <= set(verb.places), named
    return tuple((verb, Point(verb.kind, step, mark)) for step, mark in named)


def _all(verb: Verb, victim: str) -> tuple[Place, ...]:
    """Return every step, and where it may matter the places within steps too."""
    inner = EVERY_PLACE or victim in ("runner", "power")
    return tuple((verb, point) for point in verb.points if inner or not point.mark)


_DUMPS = tuple(place for verb in (CHECKPOINT, STOP, SOURCE) for place in _some(verb, "dump"))
_COPIES = tuple(place for verb in (CHECKPOINT, STOP, SOURCE) for place in _some(verb, "copy"))
_READS = _some(RESTORE, "verify", "restore", "claim")
_STORE_WAVES: tuple[Wave, ...] = (
    ("store read-only", (*_COPIES, *_some(CHECKPOINT, "publish"), *_some(STOP, "publish"))),
    ("store gone", (*_COPIES, *_some(CHECKPOINT, "publish"), *_some(STOP, "publish"))),
    ("store gone", _READS),
    ("store read-only", _some(TARGET, "restore", "claim")),
)
WAVES: tuple[Wave, ...] = (
    *((victim, _all(verb, victim)) for verb in VERBS.values() for victim in EVERYWHERE),
    ("operator, abort", _some(SOURCE, "preflight", ("hold", at.WAITS), "give-away", "end")),
    ("operator, abort", _some(TARGET, "restore", ("hold", at.WAITS), "claim")),
    ("operator, abort", (*_some(CHECKPOINT, "preflight", "publish"), *_some(STOP, "copy", "end"))),
    ("operator, abort", _some(RESTORE, "files", "go")),
    ("watchdog", (*_some(STOP, ("dump", at.CRIU)), *_some(SOURCE, ("hold", at.WAITS)))),
    ("watchdog", (*_some(RESTORE, "restore"), *_some(TARGET, ("hold", at.WAITS)))),
    ("cable", (*_some(STOP, "end"), *_some(SOURCE, "hold", "end"), *_some(CHECKPOINT, "copy"))),
    *((("cable", _some(TARGET, "restore", "claim")),) if EVERY_PLACE else ()),
    ("criu", (*_some(CHECKPOINT, ("dump", at.CRIU)), *_some(STOP, ("dump", at.CRIU)))),
    ("supervisor", (*_some(CHECKPOINT, ("dump", at.CRIU)), *_some(SOURCE, ("hold", at.WAITS)))),
    ("supervisor", (*_some(RESTORE, "prove"), *_some(TARGET, ("hold", at.WAITS)))),
    ("stage full", _DUMPS),
    ("stage read-only", _DUMPS),
    ("store full", _COPIES),
    *_STORE_WAVES,
)
CASES = [(wave, place) for wave in WAVES for place in wave[1]]


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    sandbox = fleet.up("points", hosts=2, root=tmp_path_factory.mktemp("fleet"))
    operator = Operator(sandbox, tmp_path_factory.mktemp("operator"))
    typist = Typist(operator, tmp_path_factory.mktemp("commands"))
    made = Crew(sandbox, operator, typist)
    yield made
    made.close()
    typist.close()
    sandbox.down()


@pytest.fixture(scope="module")
def waves() -> dict[Wave, list[Case]]:
    return {}


@pytest.mark.parametrize(
    ("wave", "place"),
    CASES,
    ids=[f"{verb.name}-{wave[0]}-{point.short}" for wave, (verb, point) in CASES],
)
def test_cut(crew: Crew, waves: dict[Wave, list[Case]], wave: Wave, place: Place) -> None:
    if wave not in waves:
        waves[wave] = []  # a wave that does not come to its end is not tried again
        waves[wave] = run_wave(crew, wave[0], STRIKES[wave[0]], wave[1])
        if TABLE:
            write_table(Path(TABLE), [case for cases in waves.values() for case in cases])
    case = next((case for case in waves[wave] if (case.verb, case.point) == place), None)
    assert case is not None, "its wave did not come to an end"
    assert case.ended is not None
    assert case.problems == [], f"struck at {case.where}\n{case.ended.err}\n{case.shown}"
    killed = wave[0].startswith("operator")
    assert case.ended.code in ({-9} if killed else DOCUMENTED), case.ended.err
    _judge_told(case)


def _judge_told(case: Case) -> None:
    """What went wrong is explained where it is looked for, with a next command if one is needed."""
    assert case.job in case.shown
    assert case.ended is not None
    if case.ended.code > 0:
        assert "error: " in case.shown, case.shown
    if "restore" in case.recovered_by and case.ended.code > 0:
        told = case.ended.err + case.shown
        assert f"gpuguard restore {case.job}" in told or f"jobs show {case.job}" in told, told
    if case.verb is CHECKPOINT:
        assert case.outcome == "runs on the source" or "restore" in case.recovered_by
