"""What a running job would need on another host, before there is a checkpoint of it."""

import os
import platform
import stat
from dataclasses import replace

from gpuguard.agent.criu.invocations import criu_version
from gpuguard.agent.host.facts import cpu_flags
from gpuguard.agent.survey.build_ids import add_build_ids
from gpuguard.agent.survey.listening import listening_places
from gpuguard.agent.survey.open_files import SeenFile
from gpuguard.agent.survey.survey import Survey
from gpuguard.agent.survey.tree_record import record_tree
from gpuguard.model.manifests import Manifest, OpenFile, Times


def draft_manifest(survey: Survey, host: str) -> Manifest:
    """Return the manifest a checkpoint of now would have, without its files."""
    job, root = survey.job, survey.tree[0].pid
    limit = job.policy.capture_limit
    files = (_would_be(item, limit) for item in survey.files)
    return Manifest(
        checkpoint="",
        job=job.spec,
        origin=job.origin,
        host=host,
        epoch=max(1, job.epoch),
        sequence=0,
        namespace_pid=job.namespace_pid or root,
        shell_job=job.shell_job,
        criu_options=(),
        times=Times("", ""),
        bytes=0,
        files=(),
        tree=record_tree(task for task in survey.tree if not task.zombie),
        open_files=add_build_ids(files, root),
        versions={
            "criu": criu_version() or "",
            "kernel": os.uname().release,
            "arch": platform.machine(),
        },
        cpu_flags=cpu_flags(),
        listens=tuple(listening_places(root, survey.handles)),
    )


def _would_be(item: SeenFile, limit: int) -> OpenFile:
    record = item.record
    travels = item.opened and not record.deleted and stat.S_ISREG(record.mode)
    return replace(record, captured="files/later") if travels and record.size <= limit else record
