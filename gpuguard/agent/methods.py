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
    "ping": "gpuguard.agent.host_methods:ping",
    "host.info": "gpuguard.agent.host_methods:info",
    "host.doctor": "gpuguard.agent.doctor_methods:doctor",
    "cordon.show": "gpuguard.agent.cordon_methods:show",
    "cordon.set": "gpuguard.agent.cordon_methods:set_",
    "cordon.lift": "gpuguard.agent.cordon_methods:lift",
    "store.list": "gpuguard.agent.store_methods:list_all",
    "store.show": "gpuguard.agent.store_methods:show",
    "store.verify": "gpuguard.agent.store_methods:verify",
    "store.remove": "gpuguard.agent.store_methods:remove",
    "store.epoch": "gpuguard.agent.store_methods:epoch",
    "store.lease": "gpuguard.agent.store_methods:lease",
    "store.mark": "gpuguard.agent.doctor_methods:mark",
    "checkpoints.judge": "gpuguard.agent.preflight_methods:judge",
    "jobs.preflight": "gpuguard.agent.preflight_methods:preflight",
    "jobs.run": "gpuguard.agent.job_methods:run",
    "jobs.adopt": "gpuguard.agent.job_methods:adopt",
    "jobs.list": "gpuguard.agent.job_methods:list_all",
    "jobs.show": "gpuguard.agent.job_methods:show",
    "jobs.stop": "gpuguard.agent.job_methods:stop",
    "jobs.forget": "gpuguard.agent.job_methods:forget",
    "jobs.logs": "gpuguard.agent.job_methods:logs",
    "procedures.start": "gpuguard.agent.procedure_methods:start",
    "procedures.watch": "gpuguard.agent.procedure_methods:watch",
    "procedures.tell": "gpuguard.agent.procedure_methods:tell",
    "procedures.list": "gpuguard.agent.procedure_methods:list_all",
    "procedures.show": "gpuguard.agent.procedure_methods:show",
}


def find_method(name: str) -> Method:
    """Return the method of this name; raises UsageError for one this agent does not have."""
    place = METHODS.get(name)
    if place is None:
        raise UsageError(f"this agent has no method {name!r}")
    module, _, function = place.partition(":")
    method: Method = getattr(import_module(module), function)
    return method
