"""Trying again through a crowded jump host."""

import pytest

from gpuguard.model.errors import UnreachableError
from gpuguard.remote import failures, routes


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr("gpuguard.remote.routes.time.sleep", slept.append)
    return slept


class Attempts:
    def __init__(self, *results: UnreachableError | str) -> None:
        self.results = list(results)

    def __call__(self) -> str:
        result = self.results.pop(0)
        if isinstance(result, UnreachableError):
            raise result
        return result


def test_dropped_handshake_is_tried_again_after_a_while(no_sleep: list[float]) -> None:
    dropped = failures.handshake("gpu001", "the other side closed the connection")
    assert routes._patiently(Attempts(dropped, dropped, "in")) == "in"
    assert len(no_sleep) == 2 and 0.2 <= no_sleep[0] <= 0.8 and 0.4 <= no_sleep[1] <= 1.6


def test_third_failure_is_raised() -> None:
    dropped = failures.handshake("gpu001", "closed")
    attempts = Attempts(dropped, dropped, dropped, "in")
    with pytest.raises(UnreachableError, match="handshake failed"):
        routes._patiently(attempts)
    assert attempts.results == ["in"]


def test_other_failures_are_not_tried_again(no_sleep: list[float]) -> None:
    with pytest.raises(UnreachableError, match="refused every key"):
        routes._patiently(Attempts(failures.key_refused("h", "u", ["k"], []), "in"))
    assert no_sleep == []
