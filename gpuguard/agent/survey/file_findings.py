"""Which open files of a job cannot be saved, and what those cost that can."""

from collections.abc import Iterator

from gpuguard.agent.survey.open_files import SeenFile, too_large
from gpuguard.agent.survey.survey import Check, Survey
from gpuguard.model.plans import Finding

_MIB = 1024 * 1024
_ANONYMOUS = "/memfd:"  # memory, saved with the pages
_SEMAPHORE = "/dev/shm/sem."  # noqa: S108 - where glibc keeps them


def _removed_names(survey: Survey) -> Iterator[Finding]:
    for item in _on_disk(survey):
        record = item.record
        if not record.deleted or item.links == 0:
            continue
        if record.path.startswith(_SEMAPHORE):
            text = f"a named semaphore is in use (opened as {record.path}) and still has its name"
            yield survey.found("semaphore-named", text)
        else:
            text = f"{record.path} was removed while open, but the file has another name still"
            yield survey.found("link-remap", text)


def _removed_files(survey: Survey) -> Iterator[Finding]:
    gone = [item.record for item in _on_disk(survey) if item.record.deleted and not item.links]
    if gone:
        total = sum(record.size for record in gone)
        largest = max(gone, key=lambda record: record.size)
        text = (
            f"{len(gone)} removed files are still open and go into the images: "
            f"{total / _MIB:.1f} MiB, the largest {largest.path} with {largest.size / _MIB:.1f} MiB"
        )
        yield survey.found("file-deleted", text)


def _large(survey: Survey) -> Iterator[Finding]:
    for text in too_large(survey.files, survey.job.policy.capture_limit):
        yield survey.found("file-large", text)


def _locks(survey: Survey) -> Iterator[Finding]:
    locked = [item.record.path for item in survey.files if item.record.locked]
    if locked:
        yield survey.found("file-locked", f"it holds locks on {', '.join(locked)}")


CHECKS: tuple[Check, ...] = (_removed_names, _removed_files, _large, _locks)


def _on_disk(survey: Survey) -> list[SeenFile]:
    return [item for item in survey.files if not item.record.path.startswith(_ANONYMOUS)]
