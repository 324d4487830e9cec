"""Ask and switch a host's power with the commands that the inventory names for it.

They run on the operator's machine, as argument lists that no shell reads, with a deadline.
"""

import subprocess
from collections.abc import Sequence

from gpuguard.model.errors import GpuguardError, RefusedError
from gpuguard.model.inventory import Host, Power
from gpuguard.planning.views import PowerSight
from gpuguard.state.clock import Clock

ASK_SECONDS = 20.0
SWITCH_SECONDS = 90.0  # a BMC takes its time until it tells the new state
_POLL_SECONDS = 1.0
# ipmitool says it in a sentence; whatever else is printed is not guessed at.
_SAID = {
    "on": "on",
    "off": "off",
    "chassis power is on": "on",
    "chassis power is off": "off",
}


def look_at_power(host: Host) -> PowerSight | None:
    """Return what the power command says of `host`, None if the inventory names none."""
    if host.power is None:
        return None
    can_switch = bool(host.power.off)
    try:
        return PowerSight(power_state(host), None, can_switch)
    except GpuguardError as error:
        return PowerSight(None, error.message.removeprefix(f"{host.name}: "), can_switch)


def power_state(host: Host) -> str:
    """Return `on` or `off`.

    Raises:
        GpuguardError: the command fails, says anything else, or does not end in time.
    """
    command = _command(host, _power(host).status)
    said = _run(host, command).strip().lower()
    if said not in _SAID:
        shown = said.splitlines()[0][:80] if said else "nothing"
        raise GpuguardError(
            f"{host.name}: power command {command[0]} says {shown!r}, neither on nor off",
            "let it print on or off and nothing else",
        )
    return _SAID[said]


def switch_off(host: Host, clock: Clock) -> None:
    """Switch `host` off and wait until its power command says off.

    Raises:
        RefusedError: the inventory names no command for it.
        GpuguardError: the command fails, or the host is still on after SWITCH_SECONDS.
    """
    power = _power(host)
    if not power.off:
        raise RefusedError(f"{host.name}: the inventory names no `power: {{off: …}}` for it")
    _run(host, _command(host, power.off))
    deadline = clock.monotonic() + SWITCH_SECONDS
    while power_state(host) != "off":
        if clock.monotonic() > deadline:
            raise GpuguardError(
                f"{host.name}: was switched off, and its power is still on after"
                f" {SWITCH_SECONDS:.0f} s",
                "look at its BMC; nothing was restored",
            )
        clock.sleep(_POLL_SECONDS)


def _power(host: Host) -> Power:
    if host.power is None:
        raise RefusedError(
            f"{host.name}: the inventory names no `power:` command for it",
            "see Power in docs/inventory.md",
        )
    return host.power


def _command(host: Host, words: Sequence[str]) -> list[str]:
    return [word.replace("{host}", host.name).replace("{address}", host.address) for word in words]


def _run(host: Host, command: list[str]) -> str:
    text = f"{host.name}: power command {command[0]}"
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_SECONDS,
            check=False,
        )
    except OSError as error:
        raise GpuguardError(f"{text}: {error.strerror}", "correct it in the inventory") from error
    except subprocess.TimeoutExpired as error:
        raise GpuguardError(f"{text} did not end within {ASK_SECONDS:.0f} s") from error
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise GpuguardError(f"{text}: exit {done.returncode}: {words[-1] if words else 'silent'}")
    return done.stdout
