"""What findings have in common."""

from gpuguard.model.plans import Finding


def codes(found: list[Finding]) -> set[tuple[str, str]]:
    return {(item.level.value, item.code) for item in found}
