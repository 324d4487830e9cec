"""Notice that whoever read our stdout has gone, also while there is nothing to write."""

import io
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_LOOK_MILLISECONDS = 200


@contextmanager
def reader_watched() -> Iterator[None]:
    """End the block, run in the main thread, with BrokenPipeError once stdout has no reader."""
    try:
        stdout = sys.stdout.fileno()
    except io.UnsupportedOperation:  # no file at all, so nobody can close its other end
        yield
        return
    gone, over = threading.Event(), threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        if gone.is_set():  # else it is about another pipe, and that write fails by itself
            raise BrokenPipeError

    before = signal.signal(signal.SIGPIPE, end)
    watcher = threading.Thread(target=_watch, args=(stdout, gone, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGPIPE, before)


def _watch(stdout: int, gone: threading.Event, over: threading.Event) -> None:
    poll = select.poll()
    poll.register(stdout, 0)  # errors and hang-ups are reported without being asked for
    while not over.is_set():
        if poll.poll(_LOOK_MILLISECONDS):
            gone.set()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGPIPE)
            return
