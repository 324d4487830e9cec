"""A job's lease: while a counter in its store moves, the job lives; without its store it ends."""

import json
import os
import tempfile
import time
from typing import Any, Callable, Optional

_ENDS_AT = 0.8  # of the lease's term: the rest is for the kernel to end the job
_LOOKS_SECONDS = 5.0
_BYTES = 512  # written in one piece, so that a reader sees the old or the new record


class Lease:
    """The job's word to the fleet, kept by its supervisor.

    It is in force once the store holds this epoch and a durable checkpoint: before, nobody could
    restore the job elsewhere. From then on the job ends when the counter cannot be moved for the
    term, or when another host has taken the job over.
    """

    def __init__(self, order: dict[str, Any], say: Callable[[str], None]) -> None:
        self.why = ""
        self._say = say
        self._store, self._uid = str(order["store"]), str(order["uid"])
        self._folder = os.path.join(self._store, str(order["job"]))  # noqa: PTH118
        self._epoch, self._seconds = int(order["epoch"]), float(order["seconds"])
        self._record = {"epoch": self._epoch, "host": "", "seconds": self._seconds, "counter": 0}
        self._home: Optional[tuple[int, int]] = None
        self._renewed: Optional[float] = None  # begin of the last renewal; None: not in force
        self.pause = min(_LOOKS_SECONDS, self._seconds / 20)

    def keep(self) -> None:
        """Renew for ever; in a thread, because a dead store hangs whoever asks it."""
        said = ""
        while True:
            problem = self.renew()
            if problem != said:
                self._say(f"lease: {problem or 'renewed again'}")
            said = problem
            time.sleep(self._seconds / (10 if problem else 3))

    def renew(self) -> str:
        """Renew once; return what hindered it."""
        began = _boottime()
        try:
            self._round(began)
        except (OSError, ValueError, KeyError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def lapsed(self) -> bool:
        """Tell whether the job has to end; the clock is one that nobody can set."""
        if self._renewed is not None and not self.why:
            age = _boottime() - self._renewed
            if age > _ENDS_AT * self._seconds:
                self.why = f"{self._store} could not be reached for {age:.0f} s"
        return bool(self.why)

    def _round(self, began: float) -> None:
        if self._renewed is not None and self._emptied():
            self._renewed = began
            raise ValueError(f"{self._folder} was removed: nobody can restore the job from there")
        if self._read("uid").strip() != self._uid:
            raise ValueError(f"{self._folder} belongs to another job")
        names = os.listdir(self._folder)  # noqa: PTH208
        epochs = os.listdir(self._path("epochs")) if "epochs" in names else []  # noqa: PTH208
        self._mind(max([int(name) for name in epochs if name.isdigit()], default=0))
        if self._renewed is None:
            if str(self._epoch) in epochs and any(map(self._whole, names)):
                self._begin(began)
            return
        self._move()
        self._renewed = began

    def _whole(self, name: str) -> bool:
        return name[:1] != "." and os.path.exists(self._path(name, "manifest.sig"))  # noqa: PTH110

    def _mind(self, highest: int) -> None:
        if highest > self._epoch:
            host = json.loads(self._read("epochs", str(highest)))["host"]
            self.why = f"{host} holds epoch {highest} of the job, this copy is of {self._epoch}"

    def _emptied(self) -> bool:
        # An empty mount point is another folder than the store that was there.
        if self._home != _identity(self._store):
            return False
        try:
            _identity(self._folder)
        except FileNotFoundError:
            return True
        return False

    def _begin(self, began: float) -> None:
        """Make the record appear whole, as the last thing that can fail."""
        self._record["host"] = json.loads(self._read("epochs", str(self._epoch)))["host"]
        os.makedirs(self._path("leases"), mode=0o700, exist_ok=True)  # noqa: PTH103
        self._home = _identity(self._store)
        handle, name = tempfile.mkstemp(prefix=".new-", dir=self._path("leases"))
        try:
            os.write(handle, self._text())
            os.fsync(handle)
            os.close(handle)
            self._renewed = began
            os.link(name, self._path("leases", str(self._epoch)))
        except FileExistsError:
            pass  # of an earlier supervisor of this epoch, or a link whose answer was lost
        finally:
            os.unlink(name)  # noqa: PTH108

    def _move(self) -> None:
        # In place: readers on other hosts ask a file they know for its newest content.
        self._record["counter"] = int(str(self._record["counter"])) + 1
        handle = os.open(self._path("leases", str(self._epoch)), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(handle, self._text(), 0)
            os.fsync(handle)
        finally:
            os.close(handle)

    def _text(self) -> bytes:
        return json.dumps(self._record).encode().ljust(_BYTES - 1) + b"\n"

    def _path(self, *names: str) -> str:
        return os.path.join(self._folder, *names)  # noqa: PTH118

    def _read(self, *names: str) -> str:
        with open(self._path(*names), encoding="utf-8") as file:  # noqa: PTH123
            return file.read()


def _boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116
    return found.st_dev, found.st_ino
