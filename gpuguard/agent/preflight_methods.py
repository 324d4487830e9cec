"""`jobs.preflight` and `checkpoints.judge` as the wire calls them."""

from typing import Any

from gpuguard.agent.arguments import take, take_record
from gpuguard.agent.jobs.late_store import with_store
from gpuguard.agent.jobs.register import load_job
from gpuguard.agent.methods import Emit
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.restoring.judging import Question, judge_host
from gpuguard.agent.survey.live_record import draft_manifest
from gpuguard.agent.survey.room_findings import check_host
from gpuguard.agent.survey.survey import Survey, survey_job
from gpuguard.checkpoint.preflight_codes import found
from gpuguard.model.errors import RefusedError
from gpuguard.model.manifests import Manifest
from gpuguard.model.plans import Finding, Level


def preflight(params: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Answer `jobs.preflight`: everything against saving the job, and what it needs elsewhere."""
    del emit
    paths, host = NodePaths(), take(params, "host", str)
    job = with_store(load_job(paths, take(params, "name", str)), take(params, "store", str, ""))
    try:
        survey = survey_job(job)
    except RefusedError as error:
        survey = Survey(job, ())
        findings = [found("job-not-running", job.spec.name, error.message, error.hint)]
        return {"findings": [*findings, *check_host(paths, survey)], "record": None}
    survey.findings.extend(check_host(paths, survey))
    return {"findings": ordered(survey.findings), "record": draft_manifest(survey, host)}


def judge(params: dict[str, Any], emit: Emit) -> list[Finding]:
    """Answer `checkpoints.judge`: what stands against this host, and each rule that holds."""
    del emit
    record = take_record(params, "record", Manifest) if params.get("record") else None
    question = Question(
        store=take(params, "store", str),
        job=take(params, "job", str),
        host=take(params, "host", str),
        checkpoint=None if record else take(params, "checkpoint", str),
        allowed_signers=take(params, "allowed_signers", str, ""),
        record=record,
    )
    return judge_host(NodePaths(), question)


def ordered(findings: list[Finding]) -> list[Finding]:
    """Return the findings, the heaviest first."""
    return sorted(findings, key=lambda item: list(Level).index(item.level))
