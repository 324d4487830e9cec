"""What a restore does with each file the job had open."""

import stat

import pytest

from gpuguard.checkpoint.file_decisions import FileAction, Present, decide_file
from gpuguard.model.manifests import OpenFile

REG = stat.S_IFREG | 0o644
DIR = stat.S_IFDIR | 0o755
FIFO = stat.S_IFIFO | 0o600


def written(captured: bool = True, append: bool = False, size: int = 100) -> OpenFile:
    return OpenFile(
        "/d/log", size, REG, writable=True, append=append, captured="files/0" if captured else None
    )


def read(captured: bool = True) -> OpenFile:
    return OpenFile(
        "/d/data", 100, REG, writable=False, append=False, captured="files/0" if captured else None
    )


CASES = [
    # the plainly written log that grew after the dump: cut, or CRIU says "bad size"
    (written(), Present(150, REG, same_start=True), FileAction.CUT),
    (written(append=True), Present(150, REG, same_start=True), FileAction.CUT),
    (written(captured=False), Present(150, REG), FileAction.CUT),
    (written(), Present(100, REG, same_start=True), FileAction.LEAVE),
    (written(), Present(100, REG, same_start=False), FileAction.REPLACE),
    (written(), Present(150, REG, same_start=False), FileAction.REPLACE),
    (written(), Present(40, REG, same_start=True), FileAction.REPLACE),
    (written(), None, FileAction.CREATE),
    (written(captured=False), None, FileAction.REFUSE),
    (written(captured=False, append=True), None, FileAction.CREATE_EMPTY),
    (written(captured=False), Present(40, REG), FileAction.REFUSE),
    (written(captured=False, append=True), Present(40, REG), FileAction.LEAVE),
    (written(), Present(0, DIR), FileAction.REFUSE),
    (read(), None, FileAction.CREATE),
    (read(captured=False), None, FileAction.REFUSE),
    (read(), Present(100, REG), FileAction.LEAVE),
    (read(), Present(101, REG), FileAction.REFUSE),
    (OpenFile("/d", 0, DIR, False, False), None, FileAction.MAKE_FOLDER),
    (OpenFile("/d", 0, DIR, False, False), Present(0, DIR), FileAction.LEAVE),
    (OpenFile("/d", 0, DIR, False, False), Present(0, REG), FileAction.REFUSE),
    (OpenFile("/d/p", 0, FIFO, True, False), None, FileAction.MAKE_FIFO),
    (OpenFile("/d/gone", 5, REG, True, False, deleted=True), None, FileAction.LEAVE),
]


@pytest.mark.parametrize(("wanted", "present", "action"), CASES)
def test_decision(wanted: OpenFile, present: Present, action: FileAction) -> None:
    decision = decide_file(wanted, present)
    assert decision.action is action
    assert bool(decision.text) == (action in (FileAction.REFUSE, FileAction.CREATE_EMPTY))
