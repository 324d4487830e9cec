"""The power command: what it says, when it hangs, and what it proves."""

import sys
from pathlib import Path

import pytest

from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import Host, Power
from gpuguard.planning.requests import RestoreRequest
from gpuguard.running import power as module
from gpuguard.running.power import look_at_power, power_state, switch_off
from gpuguard.running.restore import bring_back, prepare
from tests.unit.running.desks import proof_of, silent_fleet
from tests.unit.running.nodes import Stopwatch


def says(text: str, code: int = 0) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import sys; print({text!r}); sys.exit({code})")


def host(status: tuple[str, ...], off: tuple[str, ...] = ()) -> Host:
    return Host("gpu001", "198.51.100.11", power=Power(status, off))


@pytest.mark.parametrize("text", ["off", "OFF\n", "Chassis Power is off"])
def test_off_is_off(text: str) -> None:
    assert power_state(host(says(text))) == "off"


@pytest.mark.parametrize("text", ["", "unknown", "power is not off", "off\non", "0"])
def test_whatever_else_is_printed_is_unknown(text: str) -> None:
    seen = look_at_power(host(says(text)))
    assert seen is not None
    assert seen.state is None
    assert "neither on nor off" in str(seen.problem)


def test_a_failing_command_is_unknown_with_its_own_words() -> None:
    seen = look_at_power(host(says("no route to the BMC", 3)))
    assert seen is not None
    assert (seen.state, seen.problem) == (
        None,
        f"power command {sys.executable}: exit 3: no route to the BMC",
    )
    assert look_at_power(host(("/no/such/command",))).state is None  # type: ignore[union-attr]


def test_a_hanging_command_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ASK_SECONDS", 0.3)
    with pytest.raises(GpuguardError, match="did not end"):
        power_state(host((sys.executable, "-c", "import time; time.sleep(60)")))


def test_name_and_address_are_filled_in_and_no_shell_reads_them() -> None:
    script = (
        "import sys; print('off' if sys.argv[1:] == ['gpu001;x', '198.51.100.11'] else sys.argv)"
    )
    status = (sys.executable, "-c", script, "{host};x", "{address}")
    assert power_state(host(status)) == "off"


def test_switching_off_waits_until_the_command_says_off(tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = (
        "import pathlib,sys; p=pathlib.Path(sys.argv[1]); "
        "n=len(p.read_text()) if p.exists() else 0; p.write_text('x'*(n+1)); "
        "print('off' if n > 1 else 'on')"
    )
    status = (sys.executable, "-c", script, str(count))
    switch_off(host(status, says("")), Stopwatch())
    assert len(count.read_text()) == 3


class Slow(Stopwatch):
    """A clock on which every wait takes much longer than asked."""

    def sleep(self, seconds: float) -> None:
        self.passed += 50.0


def test_a_host_that_stays_on_is_an_error() -> None:
    with pytest.raises(GpuguardError, match="still on after 90 s"):
        switch_off(host(says("on"), says("")), Slow())


def test_a_status_of_off_is_proof(tmp_path: Path) -> None:
    nodes, desk = silent_fleet(tmp_path, Power(says("off")))
    bring_back(desk, prepare(desk, RestoreRequest("llm")))
    assert proof_of(nodes)["kind"] == "power"


def test_on_demand_it_is_switched_off_first(tmp_path: Path) -> None:
    flag = tmp_path / "off"
    look = "import pathlib,sys; print('off' if pathlib.Path(sys.argv[1]).exists() else 'on')"
    touch = "import pathlib,sys; pathlib.Path(sys.argv[1]).touch()"
    power = Power((sys.executable, "-c", look, str(flag)), (sys.executable, "-c", touch, str(flag)))
    nodes, desk = silent_fleet(tmp_path, power)
    assert prepare(desk, RestoreRequest("llm")).refused
    plan = prepare(desk, RestoreRequest("llm", power_off=True))
    assert not flag.exists()
    bring_back(desk, plan)
    assert flag.exists()
    assert proof_of(nodes)["kind"] == "power"
    steps = desk.operations.show(desk.operations.list()[0].id).steps
    assert ("power-off", "done") in [(step.step, step.state) for step in steps]


def test_a_switch_that_fails_restores_nothing(tmp_path: Path) -> None:
    nodes, desk = silent_fleet(tmp_path, Power(says("on"), says("BMC busy", 1)))
    plan = prepare(desk, RestoreRequest("llm", power_off=True))
    with pytest.raises(GpuguardError, match="BMC busy"):
        bring_back(desk, plan)
    assert nodes[1].procedures == {}
