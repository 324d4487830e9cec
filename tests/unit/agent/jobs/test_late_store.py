"""A store that came after the job was started."""

from pathlib import Path

from gpuguard.agent.jobs.late_store import keep_store, with_store
from gpuguard.agent.jobs.register import save_job, stored_job
from gpuguard.agent.paths import NodePaths
from gpuguard.model.jobs import JobPolicy
from tests.unit.planning.sights import job

BARE = job(policy=JobPolicy(store=None))


def test_the_store_of_the_record_comes_first() -> None:
    assert with_store(BARE, "/late").policy.store == "/late"
    assert with_store(BARE, "").policy.store is None
    assert with_store(job(policy=JobPolicy(store="/first")), "/late").policy.store == "/first"


def test_it_is_written_down_once_and_for_this_job_only(tmp_path: Path) -> None:
    paths = NodePaths(tmp_path)
    save_job(paths, BARE, "request-1")
    keep_store(paths, with_store(BARE, "/late"))
    assert stored_job(paths, "llm").policy.store == "/late"
    keep_store(paths, with_store(BARE, "/other"))
    assert stored_job(paths, "llm").policy.store == "/late"


def test_another_job_of_the_name_keeps_its_own(tmp_path: Path) -> None:
    paths = NodePaths(tmp_path)
    save_job(paths, BARE)
    other = job(spec=BARE.spec.__class__("llm", uid="u-2"), policy=JobPolicy(store="/late"))
    keep_store(paths, other)
    assert stored_job(paths, "llm").policy.store is None
