"""A fleet with one saved job, what has to hold of it, and ways to spoil its hosts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpuguard.sandbox.fleet import Sandbox
from tests.system.kit import Ended, Operator, copies

STORE = "/srv/gpuguard"


STAGE = "/var/lib/gpuguard/stage"


CRIU = "/usr/sbin/criu"


MARK = "--port 7101"


WORK = ("steps", "--size-mib", "1", "--tick", "0.05")


@dataclass(frozen=True)
class Fleet:
    """The job `kept` on node1 with a durable checkpoint, and everything that may go wrong."""

    user: Operator
    pid: int
    good: str

    @property
    def sandbox(self) -> Sandbox:
        return self.user.sandbox

    def fails(self, code: int, *words: str, says: tuple[str, ...]) -> Ended:
        """Run a command that has to fail as documented, with the next command in its hint."""
        ended = self.user.run(*words, expect=code)
        for text in says:
            assert text in ended.err, f"{words}: {text!r} is not in\n{ended.err}"
        assert "hint: " in ended.err, ended.err
        assert "Traceback" not in ended.err
        return ended

    def unharmed(self) -> None:
        """Check that the job runs, once, and that its last good checkpoint is whole and alone."""
        assert copies(self.sandbox, MARK) == [("node1", self.pid)]
        state = self.sandbox.run("node1", ["ps", "-o", "stat=", "-p", str(self.pid)]).stdout
        assert state[:1] in ("S", "R"), state
        folder = self.sandbox.folder.store / "kept"
        assert not list(folder.glob(".partial-*"))
        assert (folder / self.good / "manifest.sig").exists()
        assert self.sandbox.run("node1", ["ls", "-A", STAGE]).stdout == ""

    def inventory(self, name: str, *changes: tuple[str, str]) -> str:
        """Write a changed copy of the inventory beside it; return its path."""
        text = self.sandbox.inventory.read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = self.sandbox.inventory.with_name(f"{name}.yaml")
        path.write_text(text)
        return str(path)

    def run_job(self, name: str, *options: str, host: str = "node1") -> None:
        self.user.run("jobs", "run", name, "--host", host, "--", *WORK, *options)


@contextmanager
def replaced(sandbox: Sandbox, host: str, path: str, script: str | None) -> Iterator[None]:
    """Put `script` in the place of a program, or nothing; the program is `path`.away."""
    sandbox.run(host, ["mv", path, f"{path}.away"])
    try:
        if script is not None:
            sandbox.run(host, ["tee", path], stdin=f"#!/bin/sh\n{script}\n")
            sandbox.run(host, ["chmod", "755", path])
        yield
    finally:
        sandbox.run(host, ["mv", f"{path}.away", path])


def before_dump(command: str) -> str:
    """Return a script in CRIU's place that does something as a dump begins."""
    return f'[ "$1" = dump ] && {{ {command}; }}\nexec {CRIU}.away "$@"'


@contextmanager
def small(sandbox: Sandbox, host: str, folder: str, size: str) -> Iterator[None]:
    sandbox.run(host, ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder])
    try:
        yield
    finally:
        sandbox.run(host, ["umount", folder])
