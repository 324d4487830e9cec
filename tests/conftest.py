"""The order of the whole suite, and who may share the machine."""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# Started in the background by a shell, the suite ignores Ctrl-C, and so would every child of it.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(
            _number,
            signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL,
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the practice fleet: what takes longest must not be what is left at the end."""
    items.sort(key=lambda item: item.get_closest_marker("sandbox") is None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let a test marked `serial` run while no other worker runs one.

    It stands outside of the time limit, so waiting costs a test nothing.
    """
    if not hasattr(item.config, "workerinput"):  # one process runs one test at a time anyway
        return (yield)
    shared = Path(item.config.option.basetemp).parent  # of all workers of this run
    with _room(shared, alone=item.get_closest_marker("serial") is not None):
        return (yield)


@contextmanager
def _room(folder: Path, alone: bool) -> Iterator[None]:
    """Share the machine with the other workers, or have it alone.

    Everybody passes the door one by one; who wants to be alone keeps it shut meanwhile, so that
    a stream of short tests cannot keep them out. The locks are of the kind that no child inherits.
    """
    door, room = (os.open(folder / name, os.O_RDWR | os.O_CREAT) for name in ("door", "room"))
    try:
        fcntl.lockf(door, fcntl.LOCK_EX)
        fcntl.lockf(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.lockf(door, fcntl.LOCK_UN)
        yield
    finally:
        os.close(door)
        os.close(room)
