"""Cut every procedure at every step: the job is there once, or stopped on purpose, and all is told.

Not every victim is tried at every point. Runner, runner with watchdog, agent (and with it the
link), operator and power are; the others only where they differ from one of these:

* the watchdog alone: the runner goes on and nobody notices, so a few points do;
"""

from collections.abc import Iterator

import pytest

from gpuguard.sandbox import fleet
from gpuguard.sandbox.requirements import refusal
from tests.system.crew import Crew
from tests.system.cutting import Point
from tests.system.kit import Operator
from tests.system.points import VERBS, Verb
from tests.system.typist import Typist
from tests.system.waves import STRIKES, Case, run_wave

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(300),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]
VICTIMS = ("runner", "runner+watchdog", "agent", "operator", "operator, abort", "power")
CASES = [(verb, victim, point) for verb in VERBS.values() for victim in VICTIMS
         for point in verb.points]  # fmt: skip
DOCUMENTED = {0, 1, 3, 4, 5, 75}


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
def waves() -> dict[tuple[str, str], list[Case]]:
    return {}


@pytest.mark.parametrize(
    ("verb", "victim", "point"),
    CASES,
    ids=[f"{verb.name}-{victim}-{point.short}" for verb, victim, point in CASES],
)
def test_cut(
    crew: Crew, waves: dict[tuple[str, str], list[Case]], verb: Verb, victim: str, point: Point
) -> None:
    key = (verb.name, victim)
    if key not in waves:
        waves[key] = []
        waves[key] = run_wave(crew, verb, victim, STRIKES[victim], list(verb.points))
    case = next((case for case in waves[key] if case.point == point), None)
    assert case is not None, "its wave did not come to an end"
    said = case.ended.err if case.ended else ""
    assert case.problems == [], f"struck at {case.where}\n{said}\n{case.shown}"
    code = case.ended.code if case.ended else None
    assert code in (DOCUMENTED if not victim.startswith("operator") else {-9}), said
