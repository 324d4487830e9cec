"""Translate a failed checkpoint or restore into cause, remedy and the path of the log."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from gpuguard.checkpoint.diagnoses import ALL_RULES
from gpuguard.checkpoint.diagnoses.facts import facts_about
from gpuguard.checkpoint.diagnoses.lines import (
    LogLine,
    find_verdict,
    find_versions,
    is_consequence,
    is_noise,
    read_lines,
)
from gpuguard.checkpoint.diagnoses.outcomes import (
    AFTER_FAILURE,
    AFTER_SUCCESS,
    resume_advice,
    suspended,
)
from gpuguard.checkpoint.diagnoses.rules import Case, Finding, Sight, job_name, upper_first
from gpuguard.model.codec import Record

NOT_RECOGNISED, NO_FAILURE = "not_recognised", "no_failure_found"


@dataclass(frozen=True)
class Diagnosis(Record):
    """Why it failed, in an operator's words; `confidence` is high, medium or low."""

    cause: str
    sentence: str
    remedy: str
    line: Optional[str]
    log: Optional[str]
    confidence: str
    verdict: Optional[str] = None
    facts: tuple[str, ...] = ()

    @property
    def recognised(self) -> bool:
        """Tell whether a cause was found."""
        return self.cause not in (NOT_RECOGNISED, NO_FAILURE)

    def text(self) -> str:
        """Return the whole answer for a terminal, one part a line."""
        parts = [self.sentence, f"Known: {' | '.join(self.facts)}" if self.facts else ""]
        parts += [f"Remedy: {self.remedy}", f"Line: {self.line}" if self.line else ""]
        parts.append(f"Log: {self.log}" if self.log else "Log: none was written")
        return "\n".join(part for part in parts if part)


def diagnose(
    lines: Iterable[str], context: Mapping[str, Any], rc: Optional[int], log: Optional[str]
) -> Diagnosis:
    """Return the cause of what CRIU or a CUDA step left behind.

    Args:
        lines: the log in its order; lines of CUDA steps may stand among them.
        context: what is known besides, such as versions, pids, sizes, hosts; any key may miss.
        rc: the exit status, negative for a signal, None if it never ended.
        log: where the log lies, for the answer alone; nothing is read.
    """
    read = read_lines(lines)
    # The log is of the very run; the context may be older.
    known = {**context, **find_versions(read)}
    case = Case(read, known, rc, find_verdict(read), log)
    answer = _after_success(case) if _succeeded(case) else _after_failure(case)
    return replace(_with_suspended(answer, case), log=log, verdict=case.verdict)


def _succeeded(case: Case) -> bool:
    if case.verdict:
        return case.verdict.endswith("_ok") and case.rc in (0, None)
    return case.rc == 0


def _after_success(case: Case) -> Diagnosis:
    for line in _errors(case):
        found = _explain(case, line)
        if found and found.cause in _CAUSES_UNDER_SUCCESS:
            return found
    for outcome in AFTER_SUCCESS:
        finding = outcome(case)
        if finding:
            return _diagnosis(finding, None, case, "cuda|plugin|driver|criu|nvml")
    return _diagnosis(
        Finding(
            NO_FAILURE,
            "CRIU reported success, and nothing known here speaks against it.",
            "The exit code is no proof: see that the job moves on: gpuguard jobs show JOB.",
            "medium",
        ),
        None,
        case,
    )


# A GPU process that cannot be resumed is lost although CRIU calls its own part a success.
_CAUSES_UNDER_SUCCESS = (
    "gpu_memory_full_at_restore",
    "process_died_in_cuda_call",
    "gpu_map_incomplete",
)


def _after_failure(case: Case) -> Diagnosis:
    decisive = _decisive(case)
    if decisive:
        return _explain(case, decisive) or _unknown(case, list(_errors(case)))
    for outcome in AFTER_FAILURE:
        finding = outcome(case)
        if finding:
            last = case.lines[-1] if case.lines else None
            return _diagnosis(finding, last, case, "criu|kernel|lock|page")
    return _unknown(case, [])


def _decisive(case: Case) -> Optional[LogLine]:
    # A warning or a consequence names the cause only where no error does.
    lesser = (
        line
        for line in case.lines
        if line.level != "Info" and not is_noise(line) and _matches(line)
    )
    return next(_errors(case), None) or next(lesser, None)


def _errors(case: Case) -> Iterator[LogLine]:
    """Yield the lines that can be the cause, in order.

    Those are error lines, and lines without a level (of CUDA steps, of standard output) that a
    rule knows.
    """
    for line in case.lines:
        if is_noise(line) or is_consequence(line):
            continue
        if line.level == "Error" or (line.level is None and _matches(line)):
            yield line


def _matches(line: LogLine) -> bool:
    return any(rule.pattern.search(line.text) for rule in ALL_RULES)


def _explain(case: Case, line: LogLine) -> Optional[Diagnosis]:
    for rule in ALL_RULES:
        match = rule.pattern.search(line.text)
        if match:
            finding = rule.explain(Sight(case, line, match.groupdict()))
            return _diagnosis(finding, line, case, rule.about)
    return None


def _diagnosis(finding: Finding, line: Optional[LogLine], case: Case, about: str = "") -> Diagnosis:
    facts = facts_about(case.context, about, f"{finding.sentence} {finding.remedy}")
    quoted = line.raw if line else None
    return Diagnosis(
        finding.cause,
        upper_first(finding.sentence),
        finding.remedy,
        quoted,
        None,
        finding.confidence,
        None,
        facts,
    )


def _unknown(case: Case, errors: list[LogLine]) -> Diagnosis:
    said, line = _what_it_says(case, errors)
    known = (_explain(case, error) for error in errors[1:])
    later = next((found for found in known if found), None)
    hint = f" A later line is known: {later.sentence}" if later else ""
    remedy = f"{later.remedy} " if later else ""
    name = job_name(case.context)
    return Diagnosis(
        NOT_RECOGNISED,
        f"This failure is not recognised (exit status {case.rc}). {said}{hint}",
        f"{remedy}Read {case.log or 'the log, if there is one,'} around it, and ask the state of "
        f"the job (gpuguard jobs show {name}) and of the host (gpuguard doctor "
        f"{case.context.get('host') or 'HOST'}).",
        line.raw if line else None,
        None,
        "low",
        None,
        facts_about(case.context, ".", said),
    )


def _what_it_says(case: Case, errors: list[LogLine]) -> tuple[str, Optional[LogLine]]:
    if errors:
        return f'The first error line is "{errors[0].raw}".', errors[0]
    if case.lines:
        last = case.lines[-1]
        return f'No line of the log tells a cause; the last one is "{last.raw}".', last
    return "There is not one line in its log.", None


def _with_suspended(answer: Diagnosis, case: Case) -> Diagnosis:
    """Add what must not be forgotten: CUDA processes that still sleep after the failure."""
    states = suspended(case.context)
    if not states or answer.cause in ("cuda_left_suspended", "gpu_memory_full_at_restore"):
        return answer
    sleeping = ", ".join(f"{pid} ({state})" for pid, state in states.items())
    more = f" Still suspended on the CUDA side: {sleeping}; resume first: {resume_advice(states)}."
    return replace(answer, remedy=answer.remedy + more)
