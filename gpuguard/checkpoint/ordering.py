"""Which checkpoint is newer, and which must never be removed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Optional

from gpuguard.model.manifests import CheckpointInfo

DURABLE = "durable"
PARTIAL = "partial"
BROKEN = "broken"
OUTDATED = "outdated"  # whole, but written by a copy after another host had taken the job over


@dataclass(frozen=True)
class Takeover:
    """A host took the job over at this epoch, when the store held checkpoints up to `sequence`."""

    epoch: int
    host: str
    sequence: int


def mark_outdated(
    infos: Iterable[CheckpointInfo], takeovers: Iterable[Takeover]
) -> list[CheckpointInfo]:
    """Return `infos`; durable ones that a left-behind copy wrote later are marked outdated."""
    known = list(takeovers)
    return [_marked(info, known) for info in infos]


def _marked(info: CheckpointInfo, takeovers: list[Takeover]) -> CheckpointInfo:
    later = (it for it in takeovers if it.epoch > info.epoch and info.sequence > it.sequence)
    over = min(later, key=lambda it: it.epoch, default=None)
    if over is None or info.state != DURABLE:
        return info
    text = f"written by the copy on {info.host} after {over.host} had taken the job over"
    return replace(info, state=OUTDATED, problem=f"{text} (epoch {over.epoch})")


def newest_first(infos: Iterable[CheckpointInfo]) -> list[CheckpointInfo]:
    """Sort by (epoch, sequence), durable ones before those that cannot be restored."""
    return sorted(
        infos,
        key=lambda info: (info.state == DURABLE, info.epoch, info.sequence, info.checkpoint),
        reverse=True,
    )


def newest_durable(infos: Iterable[CheckpointInfo], uid: Optional[str]) -> Optional[CheckpointInfo]:
    """Return the newest durable checkpoint of the job `uid` (of any job if None)."""
    durable = [info for info in infos if info.state == DURABLE and (uid is None or info.uid == uid)]
    return newest_first(durable)[0] if durable else None


def next_sequence(infos: Iterable[CheckpointInfo], uid: str) -> int:
    """Return 1 + the highest sequence number the store holds of the job `uid`."""
    return 1 + max((info.sequence for info in infos if info.uid == uid), default=0)


def is_last_durable(infos: Iterable[CheckpointInfo], checkpoint: str) -> bool:
    """Tell whether `checkpoint` is durable and its job has no other durable one."""
    listed = list(infos)
    target = next((info for info in listed if info.checkpoint == checkpoint), None)
    if target is None or target.state != DURABLE:
        return False
    return not any(
        info.state == DURABLE and info.uid == target.uid and info.checkpoint != checkpoint
        for info in listed
    )
