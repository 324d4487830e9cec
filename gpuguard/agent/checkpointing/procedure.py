"""The procedure `checkpoint`: save a running job, and run on, stop, or hand it over."""

from gpuguard.agent.checkpointing.dump import Dump
from gpuguard.agent.checkpointing.handover import End, GiveAway, GpuPlace, Hold, Prove
from gpuguard.agent.checkpointing.preflight import Preflight
from gpuguard.agent.checkpointing.publishing import Copy, Publish
from gpuguard.agent.procedures.procedure import Procedure


class Checkpoint(Procedure):
    """The steps of docs/protocol.md.

    The way back is closed inside a step, not after one: by `publish` where the job is to be
    stopped, by `give-away` where it is handed over. A checkpoint beside a running job needs none.
    """

    kind = "checkpoint"
    steps = (
        Preflight(),
        GpuPlace("lock-gpu"),
        GpuPlace("save-gpu"),
        Dump(),
        GpuPlace("resume-gpu"),
        Prove(),
        Copy(),
        Publish(),
        Hold(),
        GiveAway(),
        End(),
    )


CHECKPOINT = Checkpoint()
