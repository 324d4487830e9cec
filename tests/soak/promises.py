"""The promises, checked from outside after each action; what is broken comes as sentences."""

import time
from dataclasses import dataclass, field

from tests.soak.truth import Expected, Kept, verify
from tests.soak.world import Copy, World

_LOOK = 0.25  # seconds between two looks that have to agree
_WORKER_SECONDS = 4.0  # from the death of one worker to the begin of the next
_GROWTH_SECONDS = 8.0  # within which a running copy has to write a step


@dataclass
class Promises:
    """What was seen so far, and what must therefore still hold."""

    world: World
    expected: dict[str, Expected]
    checkpoints: dict[str, dict[str, Kept]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)  # checkpoints removed on purpose
    sizes: dict[str, int] = field(default_factory=dict)  # the log's size when last looked at
    epochs: dict[str, int] = field(default_factory=dict)

    def check(self) -> list[str]:
        """Return what is broken now."""
        copies = self.world.copies()
        found = self._one_copy(copies) + self._none_frozen(copies)
        for job in self.expected:
            found += self.look(job) + self._chain(job)
        return found

    def newest(self, job: str) -> Kept | None:
        """Return the last good checkpoint that was ever seen of a job and not removed."""
        known = [
            one
            for name, one in self.checkpoints.get(job, {}).items()
            if not one.wrong and name not in self.removed
        ]
        return max(known, key=lambda one: one.order, default=None)

    def rehash(self, job: str) -> list[str]:
        """Hash the last good checkpoint of a job anew."""
        newest = self.newest(job)
        wrong = verify(newest) if newest else []
        return [f"{job}: the last good checkpoint {newest and newest.folder}: {t}" for t in wrong]

    def running(self, job: str) -> Copy | None:
        """Return the one running copy of a job."""
        live = [copy for copy in self.world.copies() if copy.job == job and not copy.frozen]
        return live[0] if live else None

    def grows(self, job: str) -> bool:
        """Tell whether the job writes steps where it runs."""
        copy = self.running(job)
        if copy is None:
            return False
        before, deadline = len(self.world.log(copy.host, job)), time.monotonic() + _GROWTH_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.1)
            if len(self.world.log(copy.host, job)) > before:
                return True
        return False

    def _one_copy(self, copies: list[Copy]) -> list[str]:
        found = []
        for job, live in _several(copies).items():
            keys = {copy.key for copy in live}
            sizes = {copy.host: len(self.world.log(copy.host, job)) for copy in live}
            # A copy that CRIU is putting together may be seen unstopped: only steps are proof.
            time.sleep(1.5)
            again = {copy.key for copy in _several(self.world.copies()).get(job, [])}
            both = keys & again
            grown = [host for host, size in sizes.items() if len(self.world.log(host, job)) > size]
            if len(both) > 1 and (len(grown) > 1 or len({key[1] for key in both}) < len(both)):
                places = ", ".join(f"{key[1]} ({key[2]})" for key in sorted(both))
                found.append(f"{job}: TWO RUNNING COPIES: {places}; steps grow on {grown}")
        return found

    def _none_frozen(self, copies: list[Copy]) -> list[str]:
        suspects = {copy.key for copy in copies if copy.frozen and not self._worked_on(copy)}
        deadline = time.monotonic() + _WORKER_SECONDS
        while suspects and time.monotonic() < deadline:
            time.sleep(_LOOK)
            suspects &= {
                copy.key
                for copy in self.world.copies()
                if copy.frozen and not self._worked_on(copy)
            }
        return [
            f"{job}: FROZEN on {host} for {_WORKER_SECONDS:g} s, and nobody is at work on it;"
            f" procedures without a result: {self.world.open_procedures(host)}"
            for job, host, _ in suspects
        ]

    def _worked_on(self, copy: Copy) -> bool:
        found = self.world.open_procedures(copy.host)
        return any(job == copy.job and at_work for _, job, at_work in found)

    def look(self, job: str) -> list[str]:
        """Look at the checkpoints of a job; return what is wrong with them."""
        found = []
        known = self.checkpoints.setdefault(job, {})
        last = self.newest(job)
        now = self.world.kept(job)
        for name, one in now.items():
            if name not in known:
                one.wrong = verify(one)
                known[name] = one
                found += [f"{job}: {name} has a checkpoint's name, but {t}" for t in one.wrong]
            elif one.raw != known[name].raw:
                found.append(f"{job}: the manifest of {name} has changed")
        if last is not None and last.folder.name not in now:
            found.append(f"{job}: the last good checkpoint {last.folder.name} is GONE")
        return found

    def _chain(self, job: str) -> list[str]:
        copy = self.running(job)
        if copy is None:
            return []
        epoch = self.world.epoch(job)
        log = self.world.log(copy.host, job)
        size, last = len(log), self.newest(job)
        found = []
        wrong = self.expected[job].differs(log)
        if wrong:
            found.append(f"{job}: the steps on {copy.host} are not those of one run: {wrong}")
        if last is not None and size < last.log_size and last.order[0] <= epoch:
            found.append(
                f"{job}: on {copy.host} it went back behind its last good checkpoint"
                f" {last.folder.name}: {size} of {last.log_size} bytes of steps"
            )
        if size < self.sizes.get(job, 0) and epoch == self.epochs.get(job):
            found.append(f"{job}: went back without a restore: {self.sizes[job]} → {size} bytes")
        self.sizes[job], self.epochs[job] = size, epoch
        return found


def _several(copies: list[Copy]) -> dict[str, list[Copy]]:
    """Return the running copies of each job that has more than one."""
    live: dict[str, list[Copy]] = {}
    for copy in copies:
        if not copy.frozen:
            live.setdefault(copy.job, []).append(copy)
    return {job: found for job, found in live.items() if len(found) > 1}
