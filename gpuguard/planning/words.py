"""The steps of each procedure in the operator's words, named as in the node's journal.

Steps of GPU jobs are left out: no job that can be saved today holds a GPU.
"""

from gpuguard.model.plans import Step

_CHECKPOINT = {
    "preflight": ("check that {job} can be saved whole, and that there is room", None, None),
    "dump": (
        "stop {job} and write its memory to the stage of {host}",
        "let it go on and remove what was written",
        "the job stands still meanwhile",
    ),
    "prove": ("let {job} go on, and see that it runs", None, None),
    "copy": (
        "copy the checkpoint to {store} and hash it",
        "remove the half copy",
        "the job runs meanwhile",
    ),
    "publish": ("sign the manifest and make the checkpoint visible, now durable", None, None),
    "end": ("end the stopped processes of {job} on {host}", None, "nothing of it runs here after"),
    "hold": ("keep {job} stopped until {target} has its copy ready", "let it go on here", None),
    "give-away": ("write down on {host} that {job} belongs to {target}", None, "no way back"),
}
_RESTORE = {
    "preflight": ("check {host}: versions, memory, names and files", None, None),
    "fence": ("check that no other copy of {job} can go on; proof: {proof}", None, None),
    "verify": ("check the signature and every hash of checkpoint {checkpoint}", None, None),
    "files": ("put the job's files and working folder in place", "put back what was there", None),
    "restore": ("bring the processes back, stopped", "end them again", None),
    "hold": ("wait, stopped, until {source} has given {job} away", "end the copy", None),
    "claim": ("make {host} the holder of {job} in the store", None, "no way back"),
    "go": ("let {job} go on", None, None),
    "prove": ("see that {job} runs", None, None),
}


def checkpoint_steps(after: str, values: dict[str, str]) -> tuple[Step, ...]:
    """Return the steps of a checkpoint that ends with `after`: run, stop or hold."""
    names = ["preflight", "dump", *(("prove",) if after == "run" else ()), "copy", "publish"]
    names += {"run": (), "stop": ("end",), "hold": ("hold", "give-away", "end")}[after]
    steps = tuple(_step(_CHECKPOINT, name, values) for name in names)
    return steps if after == "run" else tuple(_stands_still(step) for step in steps)


def restore_steps(hold: bool, values: dict[str, str]) -> tuple[Step, ...]:
    """Return the steps of a restore; with `hold` it waits before it claims the job."""
    return tuple(_step(_RESTORE, name, values) for name in _RESTORE if hold or name != "hold")


def power_off_step(host: str) -> Step:
    """Return the step that switches a silent host off, from the operator's machine."""
    text = f"switch {host} off with its power command, and see that it is off"
    return Step("power-off", host, text, None, f"all that runs on {host} dies, no way back")


def _step(
    table: dict[str, tuple[str, str | None, str | None]], name: str, values: dict[str, str]
) -> Step:
    text, undo, cost = table[name]
    return Step(
        name=name,
        host=values["host"],
        text=text.format(**values),
        undo=undo.format(**values) if undo else None,
        cost=cost,
    )


def _stands_still(step: Step) -> Step:
    """Correct the cost of a copy during which the job is kept stopped."""
    if step.name != "copy":
        return step
    undo = "remove the half copy and let the job go on"
    return Step(step.name, step.host, step.text, undo, "the job stands still meanwhile")
