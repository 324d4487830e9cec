"""What is seen once is no outsider, and how findings are told."""

from gpuguard.agent.survey.outsiders import lasting
from gpuguard.agent.survey.sentences import fold
from gpuguard.model.plans import Finding, Level


def test_what_is_seen_once_is_nothing() -> None:
    looks = iter([{1: "a", 2: "b"}, {2: "c", 3: "d"}])
    assert lasting(lambda: next(looks)) == {2: "c"}
    assert lasting(dict) == {}


def test_errors_of_a_kind_are_folded_and_warnings_are_not() -> None:
    def made(level: Level, code: str, text: str) -> Finding:
        return Finding(level, code, "train", text)

    error = [made(Level.ERROR, "mqueue", str(number)) for number in range(3)]
    warnings = [made(Level.WARNING, "file-large", str(number)) for number in range(2)]
    folded = fold([*error, *warnings])
    assert [item.text for item in folded] == ["0; and 2 more alike", "0", "1"]


def test_the_line_of_a_step_is_short_where_the_error_has_a_list() -> None:
    from gpuguard.agent.procedures.engine import brief

    assert brief({"message": "a; b; c", "details": {"brief": "refused: x"}}) == "refused: x"
    assert brief({"message": "it broke", "details": None}) == "it broke"
