"""The hosts an OpenSSH configuration names; what is said of them is OpenSSH's to explain."""

import glob
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gpuguard.inventory.importers.draft import Draft, Settings
from gpuguard.inventory.scalars import HOST_NAME
from gpuguard.inventory.text import read_text
from gpuguard.model.errors import UsageError

_MAX_DEPTH = 16  # OpenSSH's own limit for Include
_SECONDS = 10.0  # a `Match exec` may hang
_ARGUMENT = re.compile(r'"([^"]*)"|(\S+)')


def read_ssh_config(path: Path, home: Path, resolve: bool | None = None) -> Draft:
    """Return the hosts that the configuration at `path` names, Include files too.

    Hosts of the user's own configuration are taken by name alone, since OpenSSH is asked for
    the rest on every connection. For any other file (or with `resolve`) what `ssh -G` answers
    is written down.

    Raises:
        UsageError: a file cannot be read, ssh refuses it, or it names no host.
    """
    own = path.absolute() == (home / ".ssh" / "config").absolute()
    names: dict[str, None] = {}
    draft = Draft(str(path))
    for name in _names(path, home, 0):
        names[name] = None
    for name in names:
        if HOST_NAME.fullmatch(name):
            draft.hosts[name] = {}
        else:
            draft.notes.append(f"left out: {name} (gpuguard needs letters, digits, . _ -)")
    if not draft.hosts:
        raise UsageError(f"{path}: names no host; patterns such as * are no hosts")
    if own and not resolve:
        draft.notes.append("addresses, users, keys and jump hosts stay in the SSH configuration")
    else:
        _resolve(draft, path)
    return draft


def _names(path: Path, home: Path, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise UsageError(f"{path}: Include goes deeper than {_MAX_DEPTH} files")
    for line in read_text(path).splitlines():
        keyword, arguments = _words(line)
        if keyword == "host":
            yield from (word for word in arguments if not re.search(r"[*?!]", word))
        elif keyword == "include":
            for pattern in arguments:
                for file in _included(pattern, path, home):
                    yield from _names(file, home, depth + 1)


def _words(line: str) -> tuple[str, list[str]]:
    found = re.match(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)", line)
    if not found:
        return "", []
    arguments: list[str] = []
    for quoted, bare in _ARGUMENT.findall(found[2]):
        if bare.startswith("#"):
            break
        arguments.append(quoted or bare)
    return found[1].lower(), arguments


def _included(pattern: str, path: Path, home: Path) -> list[Path]:
    full = Path(pattern.replace("~/", f"{home}/", 1) if pattern.startswith("~/") else pattern)
    if not full.is_absolute():
        # ssh_config(5): from ~/.ssh in a user's file, from /etc/ssh in the system's.
        base = Path("/etc/ssh") if path.is_relative_to("/etc/ssh") else home / ".ssh"
        full = base / full
    names = sorted(glob.glob(str(full)))  # noqa: PTH207  Path.glob takes no absolute pattern
    return [Path(name) for name in names if Path(name).is_file()]


def _resolve(draft: Draft, path: Path) -> None:
    for name, settings in draft.hosts.items():
        said, silent = _ask(name, str(path)), _ask(name, "/dev/null")
        settings.update(_difference(name, said, silent))
        if said.get("proxycommand", ["none"]) != ["none"]:
            draft.notes.append(f"left out: ProxyCommand of {name}; put it into ~/.ssh/config")
    jumps = sorted({str(s["proxy_jump"]) for s in draft.hosts.values() if "proxy_jump" in s})
    if jumps:
        draft.notes.append(f"jump hosts are looked up in ~/.ssh/config: {', '.join(jumps)}")


def _difference(name: str, said: dict[str, list[str]], silent: dict[str, list[str]]) -> Settings:
    settings: Settings = {}
    hostname = said.get("hostname", [name])[0]
    if hostname.lower() != name.lower():
        settings["address"] = hostname
    if said.get("port") != silent.get("port"):
        settings["port"] = int(said["port"][0])
    if said.get("user") != silent.get("user"):
        settings["user"] = said["user"][0]
    if said.get("identityfile") != silent.get("identityfile"):
        settings["identity_files"] = said["identityfile"]
    if said.get("proxyjump", ["none"]) != ["none"]:
        settings["proxy_jump"] = said["proxyjump"][0]
    return settings


def _ask(name: str, config: str) -> dict[str, list[str]]:
    if shutil.which("ssh") is None:
        raise UsageError("ssh is not installed, and only ssh can read its configuration")
    argv = ("ssh", "-G", "-F", config, "--", name)
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{config}: `ssh -G {name}` does not end; a Match exec hangs") from error
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UsageError(
            f"{config}: ssh cannot read it: {reason}", f"try: ssh -G -F {config} {name}"
        )
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        keyword, _, value = line.partition(" ")
        found.setdefault(keyword, []).append(value)
    return found
