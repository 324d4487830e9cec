"""The procedure `restore`: bring a job back from a durable checkpoint."""

from gpuguard.agent.checkpointing.handover import GpuPlace
from gpuguard.agent.procedures.procedure import Procedure
from gpuguard.agent.restoring.fence import Fence
from gpuguard.agent.restoring.files import Files, Verify
from gpuguard.agent.restoring.preflight import Preflight
from gpuguard.agent.restoring.run import Claim, Go, Hold, Prove, Restore


class RestoreProcedure(Procedure):
    """The steps of docs/protocol.md; once the epoch is claimed a crash is settled forwards."""

    kind = "restore"
    commit = "claim"
    steps = (
        Preflight(),
        Fence(),
        Verify(),
        Files(),
        Restore(),
        GpuPlace("restore-gpu"),
        Hold(),
        Claim(),
        Go(),
        Prove(),
    )


RESTORE = RestoreProcedure()
