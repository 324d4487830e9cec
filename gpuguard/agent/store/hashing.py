"""Copy and hash the files of a checkpoint in one pass, on as many cores as there are."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Callable

from gpuguard.model.manifests import CHUNK_BYTES, FileHash

Progress = Callable[[int], None]  # told the bytes just finished
Part = tuple[int, int]  # offset and length in bytes
_BLOCK_BYTES = 1024 * 1024
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_folder(source: Path, target: Path, progress: Progress) -> tuple[FileHash, ...]:
    """Copy every file below `source` into the existing folder `target`; return their hashes.

    Files end up 0600 and synced, folders 0700. hashlib and reads release the interpreter lock, so
    chunks are worked on in parallel.

    Raises:
        OSError: the target is full, read-only or gone.
    """
    sizes = list_files(source)
    for folder in sorted({str(Path(path).parent) for path in sizes}):
        _make_folders(target, folder)
    with _pool() as pool:
        jobs = {
            path: _start_copy(pool, (source / path, target / path), size, progress)
            for path, size in sizes.items()
        }
        hashes = tuple(
            FileHash(path, sizes[path], tuple(part.result() for part in parts))
            for path, parts in jobs.items()
        )
        for _ in pool.map(sync_path, [target / path for path in sizes]):
            pass
    sync_folders(target)
    return hashes


def hash_files(folder: Path, files: Sequence[FileHash], progress: Progress) -> list[str]:
    """Hash `files` below `folder` again; return the paths whose content is not as recorded.

    Raises:
        OSError: a file cannot be read.
    """
    with _pool() as pool:
        checks = [
            (item, pool.submit(_check_chunk, folder / item.path, part, digest, progress))
            for item in files
            for part, digest in zip(_parts(item.size), item.sha256)
        ]
        wrong = [item.path for item, check in checks if not check.result()]
    return sorted(set(wrong))


def list_files(folder: Path) -> dict[str, int]:
    """Return the size in bytes of every file below `folder`, keyed by its relative path.

    Raises:
        ValueError: something below is neither a plain file nor a folder.
        OSError: the folder cannot be read.
    """
    return dict(sorted(_walk(folder, "")))


def sync_path(path: Path) -> None:
    """Force one file or folder to its disk.

    Raises:
        OSError: the disk or the server refuses.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folders(top: Path) -> None:
    """Force `top` and every folder below it to disk."""
    for folder, _, _ in os.walk(top):
        sync_path(Path(folder))


def _pool() -> ThreadPoolExecutor:
    # Two more than cores: some of them wait for a disk.
    return ThreadPoolExecutor(max_workers=min(8, (os.cpu_count() or 1) + 2))


def _start_copy(
    pool: ThreadPoolExecutor, paths: tuple[Path, Path], size: int, progress: Progress
) -> list["Future[str]"]:
    source, target = paths
    os.close(os.open(target, _WRITE_FLAGS, _FILE_MODE))
    return [pool.submit(_copy_chunk, source, target, part, progress) for part in _parts(size)]


def _copy_chunk(source: Path, target: Path, part: Part, progress: Progress) -> str:
    handle = os.open(target, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        digest = hashlib.sha256()
        for at, block in _blocks(source, part):
            digest.update(block)
            _write_all(handle, block, at)
        # Runs beside the hashing of other chunks; at the end little is left to wait for.
        os.fdatasync(handle)
    finally:
        os.close(handle)
    progress(part[1])
    return digest.hexdigest()


def _check_chunk(path: Path, part: Part, expected: str, progress: Progress) -> bool:
    digest = hashlib.sha256()
    for _, block in _blocks(path, part):
        digest.update(block)
    progress(part[1])
    return digest.hexdigest() == expected


def _parts(size: int) -> list[Part]:
    return [(at, min(CHUNK_BYTES, size - at)) for at in range(0, size, CHUNK_BYTES)]


def _blocks(path: Path, part: Part) -> Iterator[tuple[int, memoryview]]:
    """Yield (offset, block) of the chunk; a block is overwritten by the next one.

    Blocks that stay in the processor's cache between read, hash and write are twice as fast as
    whole chunks.
    """
    at, end = part[0], part[0] + part[1]
    view = memoryview(bytearray(min(_BLOCK_BYTES, part[1])))
    handle = os.open(path, _READ_FLAGS)
    try:
        while at < end:
            count = os.preadv(handle, [view[: end - at]], at)
            if count == 0:
                return  # shorter than expected: the hash tells
            yield at, view[:count]
            at += count
    finally:
        os.close(handle)


def _write_all(handle: int, block: memoryview, offset: int) -> None:
    done = 0
    while done < len(block):
        done += os.pwrite(handle, block[done:], offset + done)


def _make_folders(top: Path, relative: str) -> None:
    here = top
    for part in Path(relative).parts:
        here = here / part
        if not here.is_dir():
            here.mkdir(mode=_FOLDER_MODE)


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), path + "/")
            elif entry.is_file(follow_symlinks=False):
                yield path, entry.stat(follow_symlinks=False).st_size
            else:
                raise ValueError(f"{entry.path} is neither a plain file nor a folder")
