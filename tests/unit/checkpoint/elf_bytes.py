"""Bytes in memory, read as the reader of build ids reads a file."""

from gpuguard.checkpoint.elf_notes import Read


def reader(data: bytes) -> Read:
    return lambda offset, size: data[offset : offset + size]
