"""One job, one copy: be the only one who brings it back, with proof that the old copy is gone."""

from typing import Any, Optional

from gpuguard.agent.clock import utc_now
from gpuguard.agent.procedures.procedure import Context, Step
from gpuguard.agent.restoring import facts
from gpuguard.agent.store.attempts import Attempt, release_attempt, take_attempt
from gpuguard.agent.store.epochs import EpochRecord, highest_epoch, taken
from gpuguard.agent.store.reading import load_manifest
from gpuguard.model.errors import RefusedError
from gpuguard.model.manifests import Manifest

_HANDOVER = "handover"  # a proof that comes only with the word to go on


class Fence(Step):
    """Unreachable is not dead: without proof that the old copy is gone nothing starts."""

    name = "fence"

    def do(self, ctx: Context) -> None:
        """Record the epoch the job gets, and the proof that allows it.

        Raises:
            BusyError: another one brings the job back, or has done so since this was planned.
            RefusedError: there is no proof.
        """
        folder = facts.source_folder(ctx)
        take_attempt(folder.parent, _attempt(ctx))
        manifest, found = load_manifest(folder, folder.name)
        if manifest is None:
            raise RefusedError("; ".join(item.text for item in found))
        epoch, holder = _holder(ctx, manifest, highest_epoch(folder.parent))
        ctx.record(f"{holder} holds epoch {epoch}", epoch=epoch + 1, holder=holder)
        _record_proof(ctx, holder)

    def undo(self, ctx: Context) -> None:
        """Let others try; a store that is gone only costs them the wait."""
        leave_attempt(ctx)


def leave_attempt(ctx: Context) -> None:
    """Say in the store that this attempt is over."""
    try:
        release_attempt(facts.source_folder(ctx).parent, ctx.request.id)
    except OSError as error:
        ctx.record(f"others have to wait until they see that this attempt is over: {error}")


def _attempt(ctx: Context) -> Attempt:
    return Attempt(ctx.request.id, facts.host_name(ctx), ctx.request.asked_by[:64], utc_now())


def _holder(ctx: Context, manifest: Manifest, top: Optional[EpochRecord]) -> tuple[int, str]:
    """Return epoch and host that hold the job: those whose end was proved when this was planned.

    Raises:
        BusyError: the job was taken over since then; the proof is worth nothing any more.
    """
    seen: dict[str, Any] = ctx.params.get("holder") or {}
    epoch, host = int(seen.get("epoch") or 0), str(seen.get("host") or "")
    if top is None or top.epoch < max(epoch, manifest.epoch):
        return max((manifest.epoch, manifest.host), (epoch, host))
    # In a move the source is told to give the job away: its name may have changed, not its epoch.
    same = top.epoch == epoch and (top.host == host or bool(ctx.params.get("hold")))
    if epoch and not same:
        raise taken(top)
    return top.epoch, top.host


def _record_proof(ctx: Context, holder: str) -> None:
    proof: dict[str, Any] = ctx.params.get("proof") or {}
    handover = proof.get("kind") == _HANDOVER
    if holder == facts.host_name(ctx):
        ctx.record("the job was here, and is seen gone", fence="gone-here")
    elif proof.get("kind") and proof.get("host") == holder and not handover:
        ctx.record(f"{holder}: {proof.get('text') or proof['kind']}", fence=proof)
    elif ctx.params.get("hold"):
        ctx.record(f"{holder} gives the job away before it may go on", fence="handover")
    else:
        name = facts.job_name(ctx)
        raise RefusedError(
            f"{holder} holds job {name} and nothing proves that its copy there is gone",
            f"see gpuguard restore {name} --help for what counts as proof",
        )
