"""Keep Ctrl-C and SIGTERM away from the few moments in which stopping would do harm."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def undisturbed(on_signal: Callable[[], None]) -> Iterator[None]:
    """Put off signals until the block ends, then let them do what they do; main thread only.

    `on_signal` is called when one arrives, so that the person is told why nothing stops.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    tellers: list[threading.Thread] = []

    def keep(number: int, frame: FrameType | None) -> None:
        arrived.append(number)
        # A handler runs in the middle of anything, also while this thread holds a lock that
        # telling needs.
        tellers.append(threading.Thread(target=on_signal, daemon=True))
        tellers[-1].start()

    before = {number: signal.signal(number, keep) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for teller in tellers:
            teller.join()
    if arrived:
        signal.raise_signal(arrived[0])
