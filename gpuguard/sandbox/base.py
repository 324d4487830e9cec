"""Builds the root that hosts stand on, once, and keeps it in the cache."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from gpuguard.model.errors import GpuguardError
from gpuguard.sandbox.lock import locked
from gpuguard.sandbox.places import cache_root
from gpuguard.sandbox.recipe import CriuKind, Recipe
from gpuguard.sandbox.tools import run_tool

Say = Callable[[str], None]

# Mounts of a build live in its own namespace and its processes end with us, whatever kills us.
_BOXED = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "-m", "-p", "-f", "--kill-child", "--propagation", "private", "--mount-proc"),
)
_IN_ROOT = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'


def ensure_base(kind: CriuKind, recipe: Recipe, say: Say, cache: Path | None = None) -> Path:
    """Return the base root for `kind`, building it first if the cache lacks it.

    Raises GpuguardError naming the step that failed; nothing half built stays behind.
    """
    cache = cache or cache_root()
    wanted = cache / f"base-{recipe.digest(kind)}"
    if wanted.exists():
        return wanted
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / "lock"):
        _sweep(cache)
        if not wanted.exists():
            plain = _ensure_plain(cache, recipe, say)
            say(f"adding CRIU ({kind.value}) to the base root")
            _build(wanted, lambda root: _add_criu(root, plain, kind, recipe))
    return wanted


def _ensure_plain(cache: Path, recipe: Recipe, say: Say) -> Path:
    plain = cache / f"plain-{recipe.digest()}"
    if not plain.exists():
        say(f"building the base root ({recipe.suite}); about a minute, once")
        _build(plain, lambda root: _bootstrap(root, recipe))
    return plain


def _build(wanted: Path, make: Callable[[Path], None]) -> None:
    partial = wanted.with_name(f".partial-{wanted.name}")
    try:
        make(partial)
        os.sync()
        partial.rename(wanted)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _sweep(cache: Path) -> None:
    """Remove what a killed build left; the lock says that no build is running."""
    for left in cache.glob(".partial-*"):
        shutil.rmtree(left)


def _bootstrap(root: Path, recipe: Recipe) -> None:
    include = f"--include={','.join(recipe.packages)}"
    run_tool(
        [*_BOXED, "debootstrap", "--variant=minbase", include, recipe.suite, str(root)],
        doing=f"debootstrap of {recipe.suite}",
    )
    _settle(root, recipe)
    for user in recipe.users:
        _in_root(root, "useradd", "--create-home", "--shell", "/bin/bash", "--password", "*", user)
    _remove(root, "etc/ssh", "ssh_host_*")
    _remove(root, "var/cache/apt/archives", "*.deb")


def _settle(root: Path, recipe: Recipe) -> None:
    (root / "etc/ssh/sshd_config.d/sandbox.conf").write_text(recipe.sshd)
    sudoers = root / "etc/sudoers.d/sandbox"
    sudoers.write_text(recipe.sudoers)
    sudoers.chmod(0o440)


def _add_criu(root: Path, plain: Path, kind: CriuKind, recipe: Recipe) -> None:
    run_tool(["cp", "-a", "--reflink=auto", str(plain), str(root)], doing="copying the base root")
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    package = "criu"
    if kind is CriuKind.CURRENT:
        _offer_newer_suite(root, recipe)
        package = f"criu/{recipe.newer_suite}"
    # A mirror may lag behind the date its lists are valid for.
    _in_root(root, "apt-get", "-o", "Acquire::Check-Valid-Until=false", "update")
    install = ["apt-get", "install", "-y", "--no-install-recommends", package]
    _in_root(root, "env", "DEBIAN_FRONTEND=noninteractive", *install)
    _remove(root, "var/lib/apt/lists", "*_*")
    _remove(root, "var/cache/apt/archives", "*.deb")
    # A host of the sandbox reaches nothing but its bridge; without a resolver it fails at once.
    (root / "etc/resolv.conf").write_text("")


def _offer_newer_suite(root: Path, recipe: Recipe) -> None:
    """Add the suite with the current CRIU, from the mirror debootstrap chose, for that alone."""
    sources = root / "etc/apt/sources.list"
    lines = [line.split() for line in sources.read_text().splitlines()]
    mirrors = [words[1] for words in lines if len(words) > 3 and words[0] == "deb"]
    if not mirrors:
        raise GpuguardError(f"sandbox: {sources} names no mirror; debootstrap should have")
    newer = root / f"etc/apt/sources.list.d/{recipe.newer_suite}.list"
    newer.write_text(f"deb {mirrors[0]} {recipe.newer_suite} main\n")
    pin = f"Package: *\nPin: release n={recipe.newer_suite}\nPin-Priority: 100\n"
    (root / "etc/apt/preferences.d" / recipe.newer_suite).write_text(pin)


def _in_root(root: Path, *argv: str) -> None:
    run_tool([*_BOXED, "sh", "-c", _IN_ROOT, str(root), *argv], doing=f"{argv[-1]} in {root.name}")


def _remove(root: Path, folder: str, pattern: str) -> None:
    for path in (root / folder).glob(pattern):
        path.unlink()
