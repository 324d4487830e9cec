"""The agent's own main with practice procedures added: run as a program, as the real one is."""

import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from gpuguard.agent.procedures import detach, kinds
from gpuguard.agent.procedures.procedure import Context, Procedure, Step
from gpuguard.model.errors import GpuguardError


class Mark(Step):
    """Makes a file in the world; undo removes it. Slow, broken or stuck as the params say.

    A step is slow the first time alone; one that waits does so until a test releases it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def do(self, ctx: Context) -> None:
        ctx.record(f"makes {self.name}", **{f"made_{self.name}": True})
        (Path(ctx.params["world"]) / self.name).write_text(ctx.request.id)
        with (Path(ctx.params["world"]) / "calls").open("a") as file:
            file.write(f"do {self.name}\n")
        ctx.result[self.name] = "made"
        if self.name in ctx.params.get("fills", {}):
            fill(Path(ctx.params["fills"][self.name]))
            for number in range(1000):
                ctx.record("x" * 1000, number=number)
        self._take_time(ctx)
        if self.name == ctx.params.get("fails"):
            raise GpuguardError(f"{self.name} was told to fail", "do not tell it")
        if self.name == ctx.params.get("breaks"):
            raise ZeroDivisionError("by accident")

    def _take_time(self, ctx: Context) -> None:
        world = Path(ctx.params["world"])
        first = (world / "calls").read_text().splitlines().count(f"do {self.name}") == 1
        deadline = time.monotonic() + ctx.params.get("slow", {}).get(self.name, 0) * first
        while time.monotonic() < deadline:
            time.sleep(0.01)
        while self.name == ctx.params.get("waits") and not (world / "released").exists():
            time.sleep(0.01)

    def undo(self, ctx: Context) -> None:
        if self.name == ctx.params.get("cannot_undo"):
            raise GpuguardError(f"{self.name} stays", "remove it by hand")
        assert ctx.facts[f"made_{self.name}"]
        (Path(ctx.params["world"]) / self.name).unlink(missing_ok=True)
        with (Path(ctx.params["world"]) / "calls").open("a") as file:
            file.write(f"undo {self.name}\n")


def fill(folder: Path) -> None:
    """Write until the disk is full."""
    with (folder / "filling").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


class Hold(Step):
    name = "hold"

    def applies(self, ctx: Context) -> bool:
        return "hold" in ctx.params

    def do(self, ctx: Context) -> None:
        told = ctx.hold(("go", "discard"), ctx.params["hold"])
        if told is None or told[0] == "discard":
            raise GpuguardError(f"not told to go: {told}")
        ctx.result["told"] = list(told)


class Practice(Procedure):
    kind = "practice"
    steps = (Mark("one"), Hold(), Mark("two"), Mark("three"))
    commit = "two"


kinds.KINDS["practice"] = Practice()


def argv(*words: str) -> tuple[str, ...]:
    """Return the command line that starts this program instead of the plain agent."""
    return (sys.executable, "-I", str(Path(__file__).resolve()), *words)


if __name__ == "__main__":
    from gpuguard.agent.main import main

    detach.agent_argv = argv
    sys.exit(main(sys.argv[1:]))
