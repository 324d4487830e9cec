"""The files of a small checkpoint, and a manifest for them."""

import dataclasses
from pathlib import Path
from typing import Any

from gpuguard.model.jobs import JobOrigin, JobSpec
from gpuguard.model.manifests import Manifest, ProcessRecord, Times

JOB = "train"
UID = "uid-1"


def draft(checkpoint: str, **changes: Any) -> Manifest:
    """Return a manifest without its files."""
    manifest = Manifest(
        checkpoint=checkpoint,
        job=JobSpec(JOB, UID),
        origin=JobOrigin.LAUNCHED,
        host="h1",
        epoch=1,
        sequence=1,
        namespace_pid=1000,
        shell_job=False,
        criu_options=(),
        times=Times("2026-11-29T16:00:00Z", "2026-11-29T16:00:01Z"),
        bytes=0,
        files=(),
        tree=(ProcessRecord(1000, 0, 1, "python3", "/srv", "/usr/bin/python3", 1),),
        open_files=(),
        versions={},
    )
    return dataclasses.replace(manifest, **changes)


def fill_stage(folder: Path) -> Path:
    """Make the files of a small checkpoint."""
    for name, data in {
        "images/inventory.img": b"i" * 10,
        "images/pstree.img": b"p" * 20,
        "images/files.img": b"f" * 30,
        "images/pages-1.img": bytes(range(256)) * 400,
        "files/0000": b"log\n" * 5,
        "logs/dump.log": b"",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
