"""How to reach a host: what `ssh -G` says (ssh_config(5)), with the inventory's word above it."""

import os
import re
import shutil
import socket
import subprocess
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import Host
from gpuguard.remote.person import login_name

_WORD = re.compile(r"[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*")
_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ed25519")


@dataclass(frozen=True)
class Route:
    """Where a connection goes and what it shows there."""

    name: str  # for messages: the inventory's or the jump host's name
    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    identities_only: bool = False
    agent: str | None = None  # socket of the SSH agent
    jumps: tuple[str, ...] = ()  # [user@]host[:port], the first is contacted first
    proxy_command: str | None = None
    host_key_alias: str | None = None
    user_known_hosts: tuple[Path, ...] = ()

    @property
    def place(self) -> str:
        """Address and port, for messages."""
        return f"{self.hostname} port {self.port}"


class Settings:
    """Ask OpenSSH once a host and remember; safe to use from many threads."""

    def __init__(self, config: Path | None = None) -> None:
        self._config = config
        self._cache: dict[tuple[str, ...], dict[str, list[str]]] = {}
        self._lock = threading.Lock()

    def of_host(self, host: Host) -> Route:
        """Return the route to `host`; raise UsageError if OpenSSH cannot read its settings."""
        options = (
            ["-o", f"HostName={_word(host.address).replace('%', '%%')}"]
            if host.address != host.name
            else []
        )
        options += ["-p", str(host.port)] if host.port else []
        options += ["-l", _word(host.user)] if host.user else []
        found = self._ask(host.name, options)
        route = _route(host.name, found)
        return _overridden(route, host)

    def of_jump(self, spec: str) -> Route:
        """Return the route to a jump host written `[user@]host[:port]`; raise UsageError."""
        user, name, port = split_jump(spec)
        options = ["-p", port] if port else []
        options += ["-l", user] if user else []
        return _route(name, self._ask(name, options))

    def _ask(self, name: str, options: list[str]) -> dict[str, list[str]]:
        key = (name, *options)
        with self._lock:
            if key in self._cache:
                return self._cache[key]
        found = _run_ssh_g(_word(name), options, self._config)
        with self._lock:
            self._cache[key] = found
        return found


def split_jump(spec: str) -> tuple[str, str, str]:
    """Return user, host and port of `[user@]host[:port]`; empty where not given."""
    text = spec.removeprefix("ssh://").rstrip("/")
    user, _, rest = text.rpartition("@")
    found = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]+)(?::(\d+))?", rest)
    if not found:
        raise UsageError(f"proxy_jump {spec!r} is not of the form [user@]host[:port]")
    return user, found[1] or found[3], found[2] or found[4] or ""


def _run_ssh_g(name: str, options: list[str], config: Path | None) -> dict[str, list[str]]:
    if shutil.which("ssh") is None:
        return _without_ssh(name, options)
    argv = ["ssh", "-G", *(["-F", str(config)] if config else []), *options, "--", name]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"{name}: `ssh -G` does not end; a `Match exec` in the SSH settings hangs",
            f"try it: ssh -G {name}",
        ) from error
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UsageError(
            f"{name}: OpenSSH cannot read its settings: {reason}", f"try it: ssh -G {name}"
        )
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        word, _, value = line.partition(" ")
        found.setdefault(word, []).append(value)
    return found


def _without_ssh(name: str, options: list[str]) -> dict[str, list[str]]:
    """Return OpenSSH's defaults, for a machine that has no OpenSSH client."""
    given = dict(zip(options[::2], options[1::2], strict=True))
    return {
        "hostname": [given.get("-o", name).removeprefix("HostName=")],
        "port": [given.get("-p", "22")],
        "user": [given.get("-l") or login_name()],
        "identityfile": [f"~/.ssh/{key}" for key in _DEFAULT_KEYS],
        "userknownhostsfile": ["~/.ssh/known_hosts"],
    }


def _route(name: str, found: dict[str, list[str]]) -> Route:
    def one(word: str, default: str = "") -> str:
        return found.get(word, [default])[0]

    tokens = _tokens(name, one("hostname", name), one("port", "22"), one("user"))
    known = [*one("userknownhostsfile").split(), *one("globalknownhostsfile").split()]
    files = [_path(value, tokens) for value in found.get("identityfile", []) if value != "none"]
    command = one("proxycommand")
    return Route(
        name=name,
        hostname=one("hostname", name),
        port=int(one("port", "22")),
        user=one("user"),
        identity_files=tuple(file for file in files if file.exists()),
        identities_only=one("identitiesonly") == "yes",
        agent=_agent(one("identityagent", "SSH_AUTH_SOCK"), tokens),
        jumps=_jumps(one("proxyjump")),
        proxy_command=_expand(command, tokens) if command not in ("", "none") else None,
        host_key_alias=one("hostkeyalias") or None,
        user_known_hosts=tuple(_path(value, tokens) for value in known if value != "none"),
    )


def _overridden(route: Route, host: Host) -> Route:
    if host.identity_files:
        files = tuple(Path(file).expanduser() for file in host.identity_files)
        route = replace(route, identity_files=files)
    if host.proxy_jump is not None:
        route = replace(route, jumps=_jumps(host.proxy_jump), proxy_command=None)
    return route


def _jumps(value: str) -> tuple[str, ...]:
    if value.strip().lower() in ("", "none"):
        return ()
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _agent(value: str, tokens: dict[str, str]) -> str | None:
    if value == "none":
        return None
    if value == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    if value.startswith("$"):
        return os.environ.get(value.strip("${}")) or None
    return str(_path(value, tokens))


def _tokens(name: str, hostname: str, port: str, user: str) -> dict[str, str]:
    full = socket.gethostname()
    return {
        "%": "%",
        "h": hostname,
        "n": name,
        "p": port,
        "r": user,
        "d": str(Path.home()),
        "u": login_name(),
        "i": str(os.getuid()),
        "l": full,
        "L": full.split(".")[0],
    }


def _path(value: str, tokens: dict[str, str]) -> Path:
    return Path(_expand(value, tokens).strip('"')).expanduser()


def _expand(value: str, tokens: dict[str, str]) -> str:
    return re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), value)


def _word(value: str) -> str:
    """Return `value` if it can be no option, no token and no second word."""
    if not _WORD.fullmatch(value):
        raise UsageError(f"{value!r} is no host name, address or user")
    return value
