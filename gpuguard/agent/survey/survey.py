"""Everything that stands against saving a job, found at once and without touching it."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gpuguard.agent.processes import alive
from gpuguard.agent.survey.handles import Handle, Mapping, read_handles, read_mappings
from gpuguard.agent.survey.open_files import SeenFile, read_open_files
from gpuguard.agent.survey.sentences import fold, one_line
from gpuguard.agent.survey.tree_record import Task, read_tree
from gpuguard.checkpoint.preflight_codes import found
from gpuguard.model.errors import RefusedError
from gpuguard.model.jobs import Job, JobState
from gpuguard.model.plans import Finding, Level

_APART_SECONDS = 0.05
Check = Callable[["Survey"], Iterable[Finding]]


@dataclass(frozen=True)
class Survey:
    """What was seen of a job at one moment, and what it means."""

    job: Job
    tree: tuple[Task, ...]
    files: tuple[SeenFile, ...] = ()
    handles: tuple[Handle, ...] = ()
    mappings: tuple[Mapping, ...] = ()
    findings: list[Finding] = field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        """The living processes of the tree."""
        return [task.pid for task in self.tree if not task.zombie]

    @property
    def resident(self) -> int:
        """The resident memory of the tree in bytes."""
        return sum(task.resident for task in self.tree)

    def found(self, code: str, text: str, remedy: str = "") -> Finding:
        """Build a finding about this job."""
        return found(code, self.job.spec.name, one_line(text), remedy or None)

    def texts(self, level: Level) -> list[str]:
        """Return the sentences of one level."""
        return [item.text for item in self.findings if item.level is level]


def survey_job(job: Job) -> Survey:
    """Look at a running job and judge what is seen.

    An error counts only if a second look finds its kind again: children come and go meanwhile.

    Raises:
        RefusedError: it does not run.
    """
    first = _look(job)
    against = {item.code for item in first.findings if item.level is Level.ERROR}
    if not against:
        return first
    time.sleep(_APART_SECONDS)
    survey = _look(job)
    kept = [i for i in survey.findings if i.level is not Level.ERROR or i.code in against]
    survey.findings[:] = fold(kept)
    return survey


def _look(job: Job) -> Survey:
    try:
        return _examine(job, _tree_of(job))
    except OSError as error:
        if alive(job.root):
            raise
        raise _ended(job) from error


def _examine(job: Job, tree: tuple[Task, ...]) -> Survey:
    pids = [task.pid for task in tree if not task.zombie]
    survey = Survey(
        job,
        tree,
        tuple(read_open_files(pids)),
        tuple(read_handles(pids)),
        tuple(read_mappings(pids)),
    )
    for check in _checks():
        survey.findings.extend(check(survey))
    return survey


def _tree_of(job: Job) -> tuple[Task, ...]:
    name = job.spec.name
    if job.state is not JobState.RUNNING or job.root is None:
        why = {JobState.STOPPED: "it is stopped", JobState.EXITED: "it has ended"}
        text = why.get(job.state, f"its state is {job.state.value}")
        hint = f"gpuguard jobs show {name}"
        raise RefusedError(f"job {name} cannot be saved: {text}", hint)
    tree = read_tree(job.root.pid)
    if not tree or tree[0].start_time != job.root.start_time:
        raise _ended(job)
    return tuple(tree)


def _ended(job: Job) -> RefusedError:
    name = job.spec.name
    return RefusedError(f"job {name} ended just now", f"gpuguard jobs show {name}")


def _checks() -> Iterable[Check]:
    from gpuguard.agent.survey import file_findings as survey_files
    from gpuguard.agent.survey import handle_findings as survey_handles
    from gpuguard.agent.survey import socket_findings as survey_sockets
    from gpuguard.agent.survey import task_findings as survey_tasks

    for module in (survey_tasks, survey_handles, survey_sockets, survey_files):
        yield from module.CHECKS
