"""Which CPU features a process may have found on its host and must find again."""

import re
from collections.abc import Iterable

# What libraries choose their code by; a kernel's own marks (bugs, mitigations, topology) are left
# out, since no program depends on them.
_CHOSEN = re.compile(
    r"\A(sse.*|ssse3|avx.*|amx.*|fma4?|f16c|bmi[12]|abm|popcnt|movbe|aes|vaes|pclmulqdq|"
    r"vpclmulqdq|sha_ni|sha512|sm3|sm4|gfni|adx|rdrand|rdseed|xsave.*|pku|ospke|erms|fsrm|cx16|"
    r"tbm|xop|lahf_lm|3dnow.*|movdir.*|clflushopt|clwb|rtm|hle|fsgsbase|rdpid|"
    r"asimd.*|sve.*|sme(?!p\Z).*|crc32|atomics|pmull|fphp|bf16|i8mm|lse.*)\Z"
)


def missing_flags(recorded: Iterable[str], present: Iterable[str]) -> list[str]:
    """Return the recorded features that matter to programs and that this CPU lacks."""
    return sorted(set(choosing_flags(recorded)) - set(present))


def choosing_flags(flags: Iterable[str]) -> list[str]:
    """Return the features that programs may have chosen their code by, sorted."""
    return sorted({flag for flag in flags if _CHOSEN.match(flag)})
