"""The procedure `restore`: bring a job back from a durable checkpoint."""

from gpuguard.agent.checkpointing_hand import GpuPlace
from gpuguard.agent.procedure import Procedure
from gpuguard.agent.restoring_fence import Fence
from gpuguard.agent.restoring_files import Files, Verify
from gpuguard.agent.restoring_preflight import Preflight
from gpuguard.agent.restoring_run import Claim, Go, Hold, Prove, Restore


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
