"""The methods of the wire: name → module:function, loaded when first called.

A method is `function(params, emit)`: params as they came, the result anything the codec can make
plain. `emit(event)` sends an event; `emit.pause(seconds)` sleeps and ends when the caller cancels.
"""

from importlib import import_module
from typing import Any, Callable, Protocol

from gpuguard.model.errors import UsageError


class Emit(Protocol):
    """How a method reports back while it runs."""

    def __call__(self, event: dict[str, Any]) -> None:
        """Send one event; raises Cancelled when the caller is gone or has cancelled."""

    def pause(self, seconds: float) -> None:
        """Sleep; raises Cancelled when the caller is gone or has cancelled."""


class Cancelled(Exception):  # noqa: N818 - no error: the caller had enough
    """The caller wants no more of this answer."""


Method = Callable[[dict[str, Any], Emit], Any]

METHODS: dict[str, str] = {
    "ping": "gpuguard.agent.host.methods:ping",
    "host.info": "gpuguard.agent.host.methods:info",
    "host.doctor": "gpuguard.agent.host.doctor_methods:doctor",
    "cordon.show": "gpuguard.agent.host.cordon_methods:show",
    "cordon.set": "gpuguard.agent.host.cordon_methods:set_",
    "cordon.lift": "gpuguard.agent.host.cordon_methods:lift",
    "store.list": "gpuguard.agent.store.methods:list_all",
    "store.show": "gpuguard.agent.store.methods:show",
    "store.verify": "gpuguard.agent.store.methods:verify",
    "store.remove": "gpuguard.agent.store.methods:remove",
    "store.epoch": "gpuguard.agent.store.methods:epoch",
    "store.lease": "gpuguard.agent.store.methods:lease",
    "store.mark": "gpuguard.agent.host.doctor_methods:mark",
    "checkpoints.judge": "gpuguard.agent.preflight_methods:judge",
    "jobs.preflight": "gpuguard.agent.preflight_methods:preflight",
    "jobs.run": "gpuguard.agent.jobs.methods:run",
    "jobs.adopt": "gpuguard.agent.jobs.methods:adopt",
    "jobs.list": "gpuguard.agent.jobs.methods:list_all",
    "jobs.show": "gpuguard.agent.jobs.methods:show",
    "jobs.stop": "gpuguard.agent.jobs.methods:stop",
    "jobs.forget": "gpuguard.agent.jobs.methods:forget",
    "jobs.logs": "gpuguard.agent.jobs.methods:logs",
    "procedures.start": "gpuguard.agent.procedures.methods:start",
    "procedures.watch": "gpuguard.agent.procedures.methods:watch",
    "procedures.tell": "gpuguard.agent.procedures.methods:tell",
    "procedures.list": "gpuguard.agent.procedures.methods:list_all",
    "procedures.show": "gpuguard.agent.procedures.methods:show",
}


def find_method(name: str) -> Method:
    """Return the method of this name; raises UsageError for one this agent does not have."""
    place = METHODS.get(name)
    if place is None:
        raise UsageError(f"this agent has no method {name!r}")
    module, _, function = place.partition(":")
    method: Method = getattr(import_module(module), function)
    return method
