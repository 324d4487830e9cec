"""Follow one procedure on one host from its start to its end, over links that may be lost.

The procedure goes on without us; after a lost link we come back and read on where we stopped.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from gpuguard.model.errors import (
    BusyError,
    GpuguardError,
    RefusedError,
    UnreachableError,
    UsageError,
    error_from_dict,
)
from gpuguard.model.operations import OperationStep
from gpuguard.model.procedures import (
    EntryState,
    JournalEntry,
    ProcedureRequest,
    ProcedureState,
    ProcedureStatus,
)
from gpuguard.remote.session import Session
from gpuguard.running.desk import Desk, Progress
from gpuguard.running.power import look_at_power
from gpuguard.state.operations import OperationLog

T = TypeVar("T")
_FIRST_PAUSE = 0.2  # seconds; doubled with every try
_LONGEST_PAUSE = 5.0
_START_SECONDS = 60.0
_REMIND_SECONDS = 30.0  # between two words about a host that is waited for
_TELL_SECONDS = 30.0
_TAKEN_TRIES = 100
_TAKEN_PAUSE = 0.1
_KEPT = frozenset({EntryState.DONE, EntryState.FAILED, EntryState.UNDONE})
ENDED = frozenset({ProcedureState.DONE, ProcedureState.FAILED, ProcedureState.UNSETTLED})


class Follower:
    """One procedure: `start` it, `watch` it until it holds or ends, `tell` it a word."""

    def __init__(self, desk: Desk, log: OperationLog, host: str, request: ProcedureRequest) -> None:
        self.host = host
        self.request = request
        self.job: str | None = request.params.get("job")
        self.status: ProcedureStatus | None = None
        self.asked = False
        self._desk = desk
        self._log = log
        self._seq = 0
        self._begun: dict[str, float] = {}
        self._lost_at: float | None = None
        self._told_at = 0.0
        self._step = "start"

    @property
    def ended(self) -> bool:
        """Tell whether the procedure is known to have ended."""
        return self.status is not None and self.status.state in ENDED

    def start(self) -> ProcedureStatus:
        """Ask the node to carry the procedure out; the same id is never done twice.

        Raises:
            UnreachableError: the host did not answer; if it was never asked, nothing was started.
            BusyError: another procedure holds the job.
        """
        self.note("asked", f"{self.request.kind} {self.request.id}", self.request.kind)
        try:
            return self._ask_to_start()
        except (BusyError, RefusedError, UsageError):
            self.asked = False  # the node said no before it began
            raise

    def watch(self) -> ProcedureStatus:
        """Report the journal until the procedure holds or ends.

        A procedure that nobody on the host is at work on any more is asked for once again: the
        same id is not done twice, but what was cut off is settled first.
        """
        status = self._watch()
        if status.state is not ProcedureState.ABANDONED:
            return status
        self.note("found", "nobody is at work on it any more: it is settled", self._step)
        self._ask_to_start()
        return self._watch()

    def call_off(self) -> None:
        """Have a procedure that does not hold undone before its next step, if it still can be."""
        self.note("told", "call_off", self._step)
        self._take(
            lambda session: session.call(
                "procedures.tell", timeout=_TELL_SECONDS, id=self.request.id, word="call_off"
            )
        )

    def tell(self, word: str, **data: Any) -> ProcedureStatus:
        """Tell the holding procedure `word` and return when it goes on or has ended.

        Raises:
            RefusedError: it does not wait for a word any more.
            UnreachableError: it is not known whether the word arrived.
        """
        self.note("told", word, word.replace("_", "-"))
        status = self._take(
            lambda session: session.call(
                "procedures.tell", timeout=_TELL_SECONDS, id=self.request.id, word=word, data=data
            )
        )
        return self._until_taken(word, status)

    def finish(self) -> ProcedureStatus:
        """Watch until the procedure has ended; raise what `demand_done` raises."""
        status = self.watch()
        return demand_done(self.host, status)

    def discard(self) -> ProcedureStatus | None:
        """Have the procedure undone, if it was started: wait until it holds, tell it, see it end.

        Raises:
            UnreachableError: the host does not answer; the hold's own time limit undoes it.
        """
        if not self.asked or self.ended:
            return self.status
        status = self.watch()
        if status.state is ProcedureState.HOLDING:
            try:
                self.tell("discard")
            except RefusedError:
                # Its time was up at the same moment: it is being undone already.
                self.note("note", "it did not wait any more", self._step)
            status = self.watch()
        return status

    def leave(self) -> None:
        """Say that we stop watching and the host goes on."""
        if self.asked and not self.ended:
            text = f"{self.host} goes on with it by itself: gpuguard jobs show {self.job}"
            self.note("left", text, self._step)

    def note(self, state: str, text: str, step: str) -> None:
        """Report and write down something of the operator's side."""
        self._report(Progress(self.host, step, state, text, self.job))

    def _ask_to_start(self) -> ProcedureStatus:
        return self._take(
            lambda session: session.call(
                "procedures.start", timeout=_START_SECONDS, request=self.request.to_dict()
            )
        )

    def _watch(self) -> ProcedureStatus:
        return self._take(
            lambda session: session.stream(
                "procedures.watch", self._on_event, id=self.request.id, after_seq=self._seq
            )
        )

    def _take(self, ask: Callable[[Session], Any]) -> ProcedureStatus:
        try:
            self.status = ProcedureStatus.from_dict(self._insist(ask))
        except ValueError as error:
            raise GpuguardError(
                f"{self.host}: the agent's answer makes no sense: {error}"
            ) from error
        return self.status

    def _until_taken(self, word: str, status: ProcedureStatus) -> ProcedureStatus:
        for _ in range(_TAKEN_TRIES):
            if status.state is not ProcedureState.HOLDING:
                return status
            self._desk.clock.sleep(_TAKEN_PAUSE)
            status = self.watch()
        raise GpuguardError(
            f"{self.host}: procedure {self.request.id} was told {word} and still waits",
            f"gpuguard ops show {self._log.id}",
        )

    def _insist(self, ask: Callable[[Session], T]) -> T:
        """Ask until there is an answer; a host that was asked once is tried again and again."""
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = self._once(ask)
            except UnreachableError as error:
                self._mind_loss(error)
                self._desk.clock.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                self._heard()
                return answer

    def _once(self, ask: Callable[[Session], T]) -> T:
        session = self._desk.session(self.host)
        self.asked = True
        try:
            return ask(session)
        except UnreachableError:
            session.close()
            raise

    def _mind_loss(self, error: UnreachableError) -> None:
        if not self.asked or self._desk.stop.is_set():
            raise error
        now, patience = self._desk.clock.monotonic(), self._desk.patience
        first = self._lost_at is None
        if self._lost_at is None:
            self._lost_at = self._told_at = now
        power = look_at_power(self._desk.inventory.host(self.host))
        if power is not None and power.state == "off":
            raise self._went_off() from error
        if first:
            text = f"{error.message}; it is waited for, up to {patience:.0f} s"
            self.note("lost", text, self._step)
        elif now - self._lost_at > patience:
            raise self._gave_up(error) from error
        elif now - self._told_at >= _REMIND_SECONDS:
            self._told_at = now
            text = f"not back yet; waited for {now - self._lost_at:.0f} of {patience:.0f} s"
            self.note("wait", text, self._step)

    def _heard(self) -> None:
        if self._lost_at is not None:
            self._lost_at = None
            self.note("back", "the host answers again", self._step)

    def _gave_up(self, error: UnreachableError) -> UnreachableError:
        return UnreachableError(
            f"{self._where_lost()}, and not back within {self._desk.patience:.0f} s:"
            f" {error.message}",
            "the host finishes or undoes the step by itself; look when it answers: "
            f"gpuguard jobs show {self.job}",
            {**error.details, "procedure": self.request.id, "step": self._step},
        )

    def _went_off(self) -> UnreachableError:
        """Return the error of a host without power: what ran on it is gone, nothing is awaited."""
        return UnreachableError(
            f"{self._where_lost()}: the power command says that {self.host} is off",
            f"gpuguard jobs show {self.job}",
            {"procedure": self.request.id, "step": self._step, "power": "off"},
        )

    def _where_lost(self) -> str:
        whose = "the move's " if self.request.words else ""
        part = f"{whose}{self.request.kind} on {self.host}"
        return f"{self.host}: lost during step {self._step} of {part}"

    def _on_event(self, event: dict[str, Any]) -> None:
        entry = JournalEntry.from_dict(event["entry"])
        if entry.seq <= self._seq:
            return
        self._heard()
        self._seq, self._step = entry.seq, entry.step
        seconds = None
        if entry.state is EntryState.BEGIN:
            self._begun[entry.step] = entry.monotonic
        elif entry.step in self._begun:
            seconds = max(0.0, entry.monotonic - self._begun[entry.step])
        self._report(
            Progress(self.host, entry.step, entry.state.value, entry.text, self.job, seconds)
        )

    def _report(self, progress: Progress) -> None:
        if progress.state in _KEPT or not _is_entry(progress.state):
            self._log.step(
                OperationStep(
                    seq=0,
                    at="",
                    host=progress.host,
                    step=progress.step,
                    state=progress.state,
                    text=progress.text,
                    job=progress.job,
                    procedure=self.request.id,
                    seconds=progress.seconds,
                )
            )
        self._desk.on_progress(progress)


def demand_done(host: str, status: ProcedureStatus) -> ProcedureStatus:
    """Return `status` if the procedure did what it was asked for.

    Raises:
        GpuguardError: what the node says went wrong, with the host in front; its kind is kept.
    """
    if status.state is ProcedureState.DONE:
        return status
    error = failure(host, status)
    if status.state is ProcedureState.FAILED and not error.hint:
        error.hint = f"it was undone; again: gpuguard {status.kind} {status.job}"
    raise error


def failure(host: str, status: ProcedureStatus) -> GpuguardError:
    """Return the error of a procedure that did not end well."""
    if status.state is ProcedureState.ABANDONED:
        return GpuguardError(
            f"{host}: nobody works on {status.kind} {status.id} any more, step {status.step}",
            f"the next command to {host} settles it: gpuguard jobs show {status.job}",
        )
    told = error_of(status)
    told.message = told.message.removeprefix(f"{host}: ")
    place = f"{host}: {status.kind}, step {status.step}: "
    if status.state is ProcedureState.FAILED:
        return type(told)(place + told.message, told.hint, told.details)
    if status.state is ProcedureState.UNSETTLED:
        text = f"{place}{told.message}; NOT UNDONE, the job may be stopped"
        return GpuguardError(text, told.hint, told.details)
    return GpuguardError(f"{place}it is {status.state.value}, which was not expected")


def error_of(status: ProcedureStatus) -> GpuguardError:
    """Return the error the node reported."""
    return error_from_dict(status.error or {})


def _is_entry(state: str) -> bool:
    return state in {item.value for item in EntryState}
