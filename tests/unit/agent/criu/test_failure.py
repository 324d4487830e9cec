"""The error that a failed run of CRIU becomes."""

from dataclasses import replace
from pathlib import Path

from gpuguard.agent.criu.failure import FailedRun, explain_failure

FORK = "(00.001847) Error (criu/cr-restore.c:1230): Can't fork for 77: File exists"
DONE = "(00.031900) Restore finished successfully. Tasks resumed."
SAID = "the job did not start within 5 s"


def failed(folder: Path, *lines: str) -> FailedRun:
    log = folder / "restore.log"
    if lines:
        log.write_text("\n".join(lines))
    return FailedRun("could not restore job a", "gn1", log, SAID, 1)


def test_cause_remedy_and_log_are_told(tmp_path: Path) -> None:
    error = explain_failure(failed(tmp_path, FORK), {"job": "a"}, "nothing was touched")
    assert error.message.startswith("gn1: CRIU could not restore job a: The job needs pid 77")
    assert error.hint is not None
    assert "gpuguard restore a" in error.hint
    assert str(tmp_path / "restore.log") in error.hint
    assert error.hint.endswith("nothing was touched")
    assert error.details["reason"] == FORK
    assert error.details["diagnosis"]["cause"] == "pid_in_use"


def test_without_a_log_what_was_said_is_the_reason(tmp_path: Path) -> None:
    error = explain_failure(failed(tmp_path), {}, "")
    assert error.message == f"gn1: CRIU could not restore job a: {SAID}"


def test_a_known_cause_on_standard_output_is_recognised(tmp_path: Path) -> None:
    said = "CRIU needs to have the CAP_SYS_ADMIN or the CAP_CHECKPOINT_RESTORE capability"
    error = explain_failure(replace(failed(tmp_path), said=said), {}, "")
    assert error.details["diagnosis"]["cause"] == "missing_capability"


def test_a_log_of_success_does_not_hide_what_went_wrong(tmp_path: Path) -> None:
    run = replace(failed(tmp_path, DONE), code=None)
    assert SAID in explain_failure(run, {}, "").message


def test_the_log_is_named_where_it_will_lie(tmp_path: Path) -> None:
    run = replace(failed(tmp_path, FORK), kept=tmp_path / "kept.log")
    assert explain_failure(run, {}, "").details["log"] == str(tmp_path / "kept.log")
