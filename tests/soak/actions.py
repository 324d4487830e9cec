"""What a soak does, one action after the other: the same seed gives the same actions.

The choice never looks at the fleet: what an action comes to (a refusal, a move, a job that was
stopped already) depends on timing, which action comes next does not.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

JOBS = tuple(f"soak-{number}" for number in range(1, 9))
HOSTS = tuple(f"node{number}" for number in range(1, 7))
OPERATORS = ("ann", "bob")
SIZES = (16, 16, 24, 32, 32, 48, 64, 64)  # MiB of memory, one a job

# What strikes while a command's procedure is at work; `source` is the host the job runs on.
STRIKES = (
    "kill operator",
    "kill runner",
    "kill watchdog",
    "kill runner and watchdog",
    "kill agent",
    "cut source",
    "cut target",
    "power off source",
    "power off target",
    "reboot source",
    "reboot target",
)
_MOST_LOST = 2  # hosts off or cut before they are mended


@dataclass(frozen=True)
class Action:
    """One thing done to the fleet."""

    verb: str
    job: str = ""
    operator: str = ""
    host: str = ""
    strike: str = ""
    delay: float = 0.0  # seconds between the begin of the procedure and the strike
    other: str = ""  # the command of a second operator at the same time

    def __str__(self) -> str:
        words = [self.operator, self.verb, self.job, self.host and f"on/to {self.host}"]
        if self.strike:
            words.append(f"; {self.delay:.2f} s into it: {self.strike}")
        if self.other:
            words.append(f"; at the same time the other operator: {self.other}")
        return " ".join(word for word in words if word)


def generate(seed: int) -> Iterator[Action]:
    """Yield actions for ever."""
    dice = random.Random(seed)  # noqa: S311  # to be repeated, not to be secret
    lost: set[str] = set()
    stopped: list[str] = []  # jobs that were to be stopped, whatever came of it
    since = 0
    while True:
        since += 1
        if len(lost) >= _MOST_LOST or since > 12 or (since > 3 and dice.random() < 0.1):
            lost.clear()
            since = 0
            yield Action("repair", operator=dice.choice(OPERATORS))
            continue
        action = _one(dice, lost, stopped)
        if action.verb == "stop" and action.job not in stopped:
            stopped.append(action.job)
        elif action.verb == "restore" and action.job in stopped:
            stopped.remove(action.job)
        if action.strike.split(" ")[0] in ("cut", "power"):
            lost.add(action.strike)
        elif action.verb in ("cut", "power off"):
            lost.add(action.host)
        elif action.verb in ("heal", "power on"):
            lost.discard(action.host)
        yield action


def _one(dice: random.Random, lost: set[str], stopped: list[str]) -> Action:
    kind = dice.choices(("command", "struck", "twins", "host", "kill"), (30, 46, 8, 11, 5))[0]
    if kind == "host":
        return _host_action(dice, lost)
    job, operator, host = dice.choice(JOBS), dice.choice(OPERATORS), dice.choice(HOSTS)
    if kind == "kill":
        return Action(dice.choice(("kill agent", "kill supervisor")), job, "", host)
    verb = dice.choices(("checkpoint", "stop", "migrate", "restore", "prune"), (9, 4, 9, 1, 1))[0]
    if stopped and (job in stopped or dice.random() < 0.4):
        job, verb = dice.choice(stopped), "restore"
    target = host if verb == "migrate" and dice.random() < 0.7 else ""
    if kind == "twins":
        other = dice.choice(("checkpoint", "stop", "migrate", "restore"))
        return Action(_busy(verb), job, operator, target, other=other)
    if kind == "struck":
        delay = round(dice.choice((0.0, 0.3, 1.0)) * dice.random(), 3)
        return Action(_busy(verb), job, operator, target, dice.choice(STRIKES), delay)
    return Action(verb, job, operator, target)


def _host_action(dice: random.Random, lost: set[str]) -> Action:
    deed = dice.choices(("cut", "power off", "reboot", "heal", "power on"), (4, 3, 4, 2, 2))[0]
    down = sorted(lost & set(HOSTS))
    host = dice.choice(down if deed in ("heal", "power on") and down else HOSTS)
    return Action(deed, host=host)


def _busy(verb: str) -> str:
    return "checkpoint" if verb == "prune" else verb
