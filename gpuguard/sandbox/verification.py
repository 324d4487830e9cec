"""Says whether a step log can only have been written by one unbroken run."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from gpuguard.sandbox.workloads.chain import (
    Part,
    advance,
    first_block,
    first_state,
    mix,
    places_of,
)

_START = re.compile(r"start seed=([0-9a-f]+) blocks=(\d+) visit=(\d+) ([a-z,]*)")
_STEP = re.compile(r"step (\d+) ([0-9a-f]{32})")


@dataclass
class StepsReport:
    """What a step log says."""

    last: int = 0  # the highest step in it
    repeated: int = 0  # steps done again after an allowed return to a checkpoint
    notes: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)  # empty: one unbroken run


def verify_steps(text: str, rollbacks: Collection[int] = ()) -> list[str]:
    """Return what is wrong with a step log; nothing if its run was never broken.

    `rollbacks` are steps that checkpoints hold: after one of these the run may go on once more.
    """
    return read_steps(text, rollbacks).findings


def read_steps(text: str, rollbacks: Collection[int] = ()) -> StepsReport:
    """Read a step log and compute its chain anew; see `verify_steps`."""
    reader = _Reader(frozenset(rollbacks))
    for place, line in enumerate(text.split("\n")[:-1], 1):
        reader.read(place, line)
    if reader.chain is None:
        reader.find(0, "no start line")
    return reader.report


class _Chain:
    """The run as it must have been, its memory made only where a step looks."""

    def __init__(self, seed: bytes, blocks: int, visit: int, parts: list[str]) -> None:
        self._blocks, self._visit = blocks, visit
        self._memory = _LazyMemory(seed)
        self._parts: list[Part] = [_Kept(first_state(seed, name)) for name in parts]
        self.checksums = [first_state(seed, "main")]

    def checksum(self, number: int) -> bytes:
        """Return the checksum of a step."""
        while len(self.checksums) <= number:
            step = len(self.checksums)
            places = places_of(step, self._blocks, self._visit)
            last = self.checksums[-1]
            self.checksums.append(advance(last, step, self._memory, places, self._parts))
        return self.checksums[number]


class _LazyMemory(dict[int, bytearray]):
    def __init__(self, seed: bytes) -> None:
        super().__init__()
        self._seed = seed

    def __missing__(self, index: int) -> bytearray:
        self[index] = first_block(self._seed, index)
        return self[index]


class _Kept:
    """What a child, thread, segment or file does, done here."""

    def __init__(self, state: bytes) -> None:
        self._state = state

    def __call__(self, digest: bytes) -> bytes:
        self._state = mix(self._state, digest)
        return self._state


class _Reader:
    def __init__(self, rollbacks: frozenset[int]) -> None:
        self._rollbacks = rollbacks
        self._at = 0  # the step the run stands at
        self.chain: _Chain | None = None
        self.report = StepsReport()

    def find(self, place: int, what: str) -> None:
        self.report.findings.append(f"line {place}: {what}" if place else what)

    def read(self, place: int, line: str) -> None:
        start, step = _START.fullmatch(line), _STEP.fullmatch(line)
        if start:
            self._start(place, start)
        elif step:
            self._step(place, int(step[1]), step[2])
        elif line.startswith("note "):
            self.report.notes.append(line[5:])
        else:
            self.find(place, f"not a line of the workload: {line[:60]!r}")

    def _start(self, place: int, found: re.Match[str]) -> None:
        if self.chain is not None:
            self.find(place, f"started anew after step {self._at}: the earlier state was lost")
        names = [name for name in found[4].split(",") if name]
        self.chain = _Chain(bytes.fromhex(found[1]), int(found[2]), int(found[3]), names)
        self._at = 0

    def _step(self, place: int, number: int, checksum: str) -> None:
        if self.chain is None:
            self.find(place, f"step {number} without a start line")
            return
        self._place(place, number)
        if number > self.report.last + 1_000_000:
            return  # a torn number; already found to be out of order
        if self.chain.checksum(number).hex() != checksum:
            self.find(place, f"step {number} has another checksum: its run lost part of its state")
        self._at = number
        self.report.last = max(self.report.last, number)

    def _place(self, place: int, number: int) -> None:
        if number == self._at + 1:
            self.report.repeated += number <= self.report.last
        elif number <= self._at and number - 1 in self._rollbacks:
            self.report.repeated += 1
        elif number <= self._at:
            self.find(place, f"step {number} done again after step {self._at}")
        else:
            self.find(place, f"steps {self._at + 1} to {number - 1} are missing")
