"""Tables that translate the lines of CRIU and of the CUDA side into causes; pure."""

from gpuguard.checkpoint.diagnoses import (
    cuda,
    file_sizes,
    files,
    gpu,
    images,
    processes,
    sockets,
    surroundings,
    terminals,
)

# The first rule that matches a line explains it; narrow tables stand before wide ones.
ALL_RULES = (
    *cuda.RULES,
    *gpu.RULES,
    *sockets.RULES,
    *processes.RULES,
    *terminals.RULES,
    *file_sizes.RULES,
    *files.RULES,
    *images.RULES,
    *surroundings.RULES,
)
