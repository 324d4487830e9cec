"""The kinds of procedures this agent can carry out, each loaded when it is first asked for."""

from importlib import import_module

from gpuguard.agent.procedures.procedure import Procedure
from gpuguard.model.errors import UsageError

KINDS: dict[str, Procedure] = {}  # what is loaded

# kind → module:name of its Procedure
PLACES: dict[str, str] = {
    "checkpoint": "gpuguard.agent.checkpointing.procedure:CHECKPOINT",
    "restore": "gpuguard.agent.restoring.procedure:RESTORE",
}


def find_kind(kind: str) -> Procedure:
    """Return the procedure of this kind; raises UsageError for one this agent does not know."""
    if kind not in KINDS:
        if kind not in PLACES:
            known = ", ".join(sorted({*KINDS, *PLACES}))
            raise UsageError(
                f"this agent knows no procedure of kind {kind!r}", f"it knows: {known or 'none'}"
            )
        module, _, name = PLACES[kind].partition(":")
        KINDS[kind] = getattr(import_module(module), name)
    return KINDS[kind]
