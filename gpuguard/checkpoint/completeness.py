"""Judge while the tree is frozen whether CRIU's images can be the whole job."""

from collections.abc import Mapping, Sequence

from gpuguard.model.manifests import ProcessRecord

_ALWAYS = ("inventory.img", "pstree.img", "files.img")
_EACH = ("core-{}.img", "mm-{}.img", "pagemap-{}.img", "ids-{}.img", "fs-{}.img")
# File-backed clean pages are not saved, so only what is private to the job must be there; CRIU
# leaves out pages of zeroes too, so half of it is the least that can be called plausible.
_PLAUSIBLE = 0.5
_SLACK = 32 * 1024 * 1024


def judge_images(
    sizes: Mapping[str, int], tree: Sequence[ProcessRecord], private: int
) -> list[str]:
    """Return what is wrong with the images, one sentence each; an empty list means complete.

    `sizes` maps the names in the images folder to bytes, `private` is the tree's anonymous
    resident memory in bytes.
    """
    problems = [f"{name} is missing" for name in _expected(tree) if name not in sizes]
    problems += [f"{name} is empty" for name in _expected(tree) if sizes.get(name, 1) == 0]
    pages = sum(size for name, size in sizes.items() if name.startswith("pages-"))
    least = int(private * _PLAUSIBLE) - _SLACK
    if pages < least:
        problems.append(
            f"the images hold {pages} bytes of memory, but the job has {private} bytes of its own"
        )
    return problems


def _expected(tree: Sequence[ProcessRecord]) -> list[str]:
    names = list(_ALWAYS)
    for process in tree:
        names += [pattern.format(process.pid) for pattern in _EACH]
    return names
