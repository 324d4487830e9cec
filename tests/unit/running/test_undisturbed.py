"""Signals in the moments that must not be stopped."""

import signal
import threading

import pytest

from gpuguard.running.undisturbed import undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_the_block(number: signal.Signals) -> None:
    told: list[str] = []
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), undisturbed(lambda: told.append("wait")):
            signal.raise_signal(number)
            told.append("went on")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert sorted(told) == ["wait", "went on"]


def test_telling_may_need_a_lock_that_the_interrupted_code_holds() -> None:
    lock = threading.Lock()

    def tell() -> None:
        with lock:
            pass

    with pytest.raises(KeyboardInterrupt), undisturbed(tell), lock:
        signal.raise_signal(signal.SIGINT)


def test_without_a_signal_nothing_happens() -> None:
    before = signal.getsignal(signal.SIGINT)
    with undisturbed(lambda: None):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
