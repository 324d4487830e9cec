# ruff: noqa: PTH116 - hundreds of libraries: plain os calls cost a fraction
"""The build ids of the programs and libraries a job has mapped; read while it runs, not frozen."""

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Optional

from gpuguard.checkpoint.compatibility_files import is_program
from gpuguard.checkpoint.elf_notes import build_id
from gpuguard.model.manifests import OpenFile


def read_build_id(path: str) -> Optional[str]:
    """Return the build id of the file, None if it has none.

    Raises:
        OSError: it cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return build_id(lambda offset, size: os.pread(handle, size, offset))
    finally:
        os.close(handle)


def add_build_ids(files: Iterable[OpenFile], root: int) -> tuple[OpenFile, ...]:
    """Return the files with build ids, read below the root of process `root` while it lives.

    A file whose size is another one than recorded was replaced since, and gets none.
    """
    return tuple(_with_id(item, root) if is_program(item) else item for item in files)


def _with_id(item: OpenFile, root: int) -> OpenFile:
    for path in (f"/proc/{root}/root{item.path}", item.path):
        try:
            if os.stat(path).st_size == item.size:
                return replace(item, build_id=read_build_id(path))
        except OSError:
            continue  # the process has ended, or its root does not show the file any more
    return item
