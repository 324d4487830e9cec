"""Everything that stands against saving a job, found at once and without touching it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gpuguard.agent.survey.handles import Handle, Mapping, read_handles, read_mappings
from gpuguard.agent.survey.open_files import SeenFile, read_open_files
from gpuguard.agent.survey.tree_record import Task, read_tree
from gpuguard.checkpoint.preflight_codes import found
from gpuguard.model.errors import RefusedError
from gpuguard.model.jobs import Job, JobState
from gpuguard.model.plans import Finding, Level

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
        return found(code, self.job.spec.name, text, remedy or None)

    def texts(self, level: Level) -> list[str]:
        """Return the sentences of one level."""
        return [item.text for item in self.findings if item.level is level]


def survey_job(job: Job) -> Survey:
    """Look at a running job and judge what is seen.

    Raises:
        RefusedError: it does not run.
    """
    tree = _tree_of(job)
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


def named(pid: int) -> str:
    """Return a process as a person knows it: number and command."""
    from gpuguard.agent.processes import command_line, stat

    words = b" ".join(command_line(pid)).decode(errors="replace")
    entry = stat(pid)
    return f"process {pid} ({words[:80] or (entry.name if entry else 'gone')})"


def _tree_of(job: Job) -> tuple[Task, ...]:
    name = job.spec.name
    if job.state is not JobState.RUNNING or job.root is None:
        why = {JobState.STOPPED: "it is stopped", JobState.EXITED: "it has ended"}
        text = why.get(job.state, f"its state is {job.state.value}")
        hint = f"gpuguard jobs show {name}"
        raise RefusedError(f"job {name} cannot be saved: {text}", hint)
    tree = read_tree(job.root.pid)
    if not tree or tree[0].start_time != job.root.start_time:
        raise RefusedError(f"job {name} ended just now", f"gpuguard jobs show {name}")
    return tuple(tree)


def _checks() -> Iterable[Check]:
    from gpuguard.agent.survey import file_findings as survey_files
    from gpuguard.agent.survey import handle_findings as survey_handles
    from gpuguard.agent.survey import socket_findings as survey_sockets
    from gpuguard.agent.survey import task_findings as survey_tasks

    for module in (survey_tasks, survey_handles, survey_sockets, survey_files):
        yield from module.CHECKS
