"""Every reported failure gets the right cause, the words that matter and none that mislead."""

import random
import re
from typing import Any

import pytest

from gpuguard.checkpoint.diagnosis import Diagnosis, diagnose

Case = dict[str, Any]
LOG = "stage/logs/dump.log"


def judged(case: Case, lines: list[str]) -> Diagnosis:
    return diagnose(lines, case["context"], case["rc"], LOG)


def answer(diagnosis: Diagnosis) -> str:
    """What the operator is told, without the quoted log line, which could say anything."""
    return "\n".join([diagnosis.sentence, *diagnosis.facts, diagnosis.remedy])


def test_cause(checkpoint_failure: Case) -> None:
    assert (
        judged(checkpoint_failure, checkpoint_failure["log"]).cause == checkpoint_failure["cause"]
    )


def test_answer_says_what_matters(checkpoint_failure: Case) -> None:
    told = answer(judged(checkpoint_failure, checkpoint_failure["log"])).lower()
    lacking = [
        words
        for words in checkpoint_failure["must_say"]
        if not any(str(word).lower() in told for word in words)
    ]
    assert lacking == [], told


def test_answer_misleads_nobody(checkpoint_failure: Case) -> None:
    text = judged(checkpoint_failure, checkpoint_failure["log"]).text()
    wrong = [
        pattern
        for pattern in checkpoint_failure["forbidden_words"]
        if re.search(pattern, text, re.IGNORECASE)
    ]
    assert wrong == [], text


def test_answer_names_log_and_next_command(checkpoint_failure: Case) -> None:
    diagnosis = judged(checkpoint_failure, checkpoint_failure["log"])
    assert diagnosis.log == LOG
    assert LOG in diagnosis.text()
    assert "gpuguard " in diagnosis.remedy


def test_quoted_line_is_the_logs_own(checkpoint_failure: Case) -> None:
    diagnosis = judged(checkpoint_failure, checkpoint_failure["log"])
    assert diagnosis.line is None or diagnosis.line in checkpoint_failure["log"]


@pytest.mark.parametrize("seed", range(5))
def test_noise_between_the_lines_changes_nothing(checkpoint_failure: Case, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    noise = [f"(00.00{dice.randint(1000, 9999)}) {text}" for text in noise_of(checkpoint_failure)]
    dice.shuffle(noise)
    mixed = list(checkpoint_failure["log"])
    for line in noise:
        # The last line is the verdict and stays the last.
        mixed.insert(dice.randint(0, max(0, len(mixed) - 1)), line)
    plain = judged(checkpoint_failure, checkpoint_failure["log"])
    assert judged(checkpoint_failure, mixed) == plain


def noise_of(case: Case) -> list[str]:
    return [re.sub(r"\bN\b", "4242", line) for line in case["document"]["noise"]]


@pytest.mark.parametrize("seed", range(5))
def test_times_and_source_places_change_nothing(checkpoint_failure: Case, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311

    def moved(line: str) -> str:
        line = re.sub(
            r"^\(\d+\.\d+\)", f"({dice.randint(0, 999):02}.{dice.randint(0, 999999):06})", line
        )
        return re.sub(r"(\(\S+\.c):\d+\)", rf"\g<1>:{dice.randint(1, 9999)})", line)

    plain = judged(checkpoint_failure, checkpoint_failure["log"])
    other = judged(checkpoint_failure, [moved(line) for line in checkpoint_failure["log"]])
    assert (other.cause, other.sentence, other.remedy) == (
        plain.cause,
        plain.sentence,
        plain.remedy,
    )


@pytest.mark.parametrize("offset", [1, 1000, 4_000_000])
def test_other_pids_keep_the_cause(checkpoint_failure: Case, offset: int) -> None:
    lines = [renumbered(line, offset) for line in checkpoint_failure["log"]]
    assert judged(checkpoint_failure, lines).cause == checkpoint_failure["cause"]


def renumbered(line: str, offset: int) -> str:
    pid = re.compile(r"(\bpid:? |process ID |\) {2,}|for )(\d+)(?=[\s:)]|$)")
    return pid.sub(lambda match: f"{match[1]}{int(match[2]) + offset}", line)


def test_empty_context_still_gives_an_answer(checkpoint_failure: Case) -> None:
    diagnosis = diagnose(checkpoint_failure["log"], {}, checkpoint_failure["rc"], None)
    assert diagnosis.sentence
    assert diagnosis.remedy
