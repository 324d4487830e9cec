"""Tell a checkpoint that is bad everywhere from a host that is unfit."""

from gpuguard.checkpoint.preflight_codes import rule_of
from gpuguard.model.plans import Finding, Level
from gpuguard.planning.findings import refuse
from gpuguard.planning.views import StoreView

_OF_THE_CHECKPOINT = ("checkpoint-damaged",)


def untrusted(store: StoreView) -> tuple[Finding, ...]:
    """Return what is wrong with the checkpoint itself, if every host that was asked says so."""
    wrong = [tuple(filter(_is_of_checkpoint, found)) for found in store.verdicts.values()]
    return wrong[0] if wrong and all(wrong) else ()


def untrusted_finding(
    job: str, checkpoint: str, wrong: tuple[Finding, ...], way_out: str | None
) -> Finding:
    """Build the refusal of a checkpoint, with the way out first."""
    text = f"checkpoint {checkpoint} is not to be trusted: "
    remedies = [way_out, *(item.remedy for item in wrong)]
    remedy = "; or ".join(dict.fromkeys(text for text in remedies if text))
    return refuse("checkpoint-untrusted", job, text + "; ".join(w.text for w in wrong), remedy)


def _is_of_checkpoint(item: Finding) -> bool:
    if item.level is not Level.ERROR:
        return False
    return item.code in _OF_THE_CHECKPOINT or rule_of(item.code) == "signature"
