"""Each way a host can fail us: one sentence that says where and why, and the next command."""

from gpuguard.model.errors import RefusedError, UnreachableError


def dns(name: str, address: str, reason: str) -> UnreachableError:
    """The address has no IP address."""
    return UnreachableError(
        f"{name}: the name {address} cannot be resolved: {reason}",
        f"correct the address in the inventory, or look at: getent hosts {address}",
        {"reason": "dns"},
    )


def connect(name: str, place: str, reason: str) -> UnreachableError:
    """Nobody listens there, or no route leads there."""
    return UnreachableError(
        f"{name}: no connection to {place}: {reason}",
        "check that the host is up and that sshd listens on this address and port",
        {"reason": "refused"},
    )


def connect_timeout(name: str, place: str, seconds: float) -> UnreachableError:
    """The TCP connection was not answered."""
    return UnreachableError(
        f"{name}: no answer from {place} within {seconds:g} s",
        "the host is down or a firewall drops the packets; "
        "if the way is only slow, raise connect_timeout in the inventory",
        {"reason": "timeout"},
    )


def hang(name: str, step: str, seconds: float) -> UnreachableError:
    """Something accepted the connection and then said nothing."""
    return UnreachableError(
        f"{name}: the host accepted the connection, then hung at {step} for {seconds:.0f} s",
        f"log in by hand and look at its load, disks and NFS mounts: ssh -v {name}",
        {"reason": "hang", "step": step},
    )


def handshake(name: str, reason: str) -> UnreachableError:
    """The SSH handshake broke off."""
    return UnreachableError(
        f"{name}: the SSH handshake failed: {reason}",
        f"compare with OpenSSH's own view: ssh -v {name}",
        {"reason": "handshake"},
    )


def unknown_key(name: str, place: str, key_type: str, fingerprint: str) -> RefusedError:
    """The host key is in no known_hosts file."""
    return RefusedError(
        f"{name}: the host key of {place} is unknown ({key_type} {fingerprint})",
        f"compare the fingerprint with the host's, then record it: gpuguard hosts trust {name}",
        {"reason": "unknown-host-key", "fingerprint": fingerprint},
    )


def changed_key(name: str, place: str, found: str, expected: str) -> RefusedError:
    """The host shows another key than the one on record."""
    return RefusedError(
        f"{name}: the host key of {place} has CHANGED: it shows {found}, on record is {expected}; "
        "the host was reinstalled, or somebody sits between",
        "if the change is yours: gpuguard hosts trust --replace " + name,
        {"reason": "changed-host-key", "found": found, "expected": expected},
    )


def revoked_key(name: str, place: str, fingerprint: str, where: str) -> RefusedError:
    """The host shows a key that is marked as revoked."""
    return RefusedError(
        f"{name}: the host key of {place} ({fingerprint}) is marked @revoked in {where}",
        "give the host a new key, then record it: gpuguard hosts trust --replace " + name,
        {"reason": "revoked-host-key", "fingerprint": fingerprint},
    )


def key_refused(name: str, user: str, tried: list[str], notes: list[str]) -> UnreachableError:
    """The host took none of our keys."""
    told = f" ({'; '.join(notes)})" if notes else ""
    if tried:
        message = f"{name}: refused every key offered for user {user}: {', '.join(tried)}{told}"
    else:
        message = f"{name}: there is no key to offer for user {user}{told}"
    return UnreachableError(
        message,
        f"load the right key (ssh-add), set identity_files in the inventory, or install it: "
        f"ssh-copy-id {user}@{name}",
        {"reason": "key-refused", "tried": tried},
    )


def jump_down(name: str, jump: str, reason: str) -> UnreachableError:
    """The way leads over another host that does not let us through."""
    return UnreachableError(
        f"{name}: its jump host {jump} does not lead there: {reason}",
        f"check the jump host first: ssh ssh://{jump} true",
        {"reason": "jump-host", "jump": jump},
    )


def sudo_refused(name: str, user: str, said: str) -> UnreachableError:
    """The login is not root and may not become it without a password."""
    line = f"Defaults:{user} !requiretty" if "tty" in said else f"{user} ALL=(root) NOPASSWD: ALL"
    return UnreachableError(
        f"{name}: user {user} may not become root without a password: {_last(said)}",
        f"on {name}, allow it (visudo): {line}; or log in as root",
        {"reason": "sudo"},
    )


def no_python(name: str, said: str) -> UnreachableError:
    """There is no python3 on the node."""
    return UnreachableError(
        f"{name}: there is no python3 on the host: {_last(said)}",
        f"install Python 3.9 or newer on {name}, for instance: apt-get install python3",
        {"reason": "no-python"},
    )


def old_python(name: str, version: str) -> UnreachableError:
    """The node's python3 cannot run the agent."""
    return UnreachableError(
        f"{name}: Python {version} is too old for the agent",
        f"install Python 3.9 or newer on {name} (python3.9 beside the old one is enough)",
        {"reason": "old-python", "version": version},
    )


def cannot_store(name: str, path: str, reason: str, text: str) -> UnreachableError:
    """The agent's folder cannot be written."""
    hints = {
        "disk-full": f"free some space for {path} on {name}: df -h {path}; df -i {path}",
        "read-only": f"the file system of {path} on {name} is read-only: look at dmesg, remount it",
        "permission": f"log in as root, or set sudo: true for {name} in the inventory",
        "unsafe": f"on {name}, as root: chown root {path}; chmod 700 {path}",
    }
    return UnreachableError(
        f"{name}: the agent cannot be put into {path}: {text}",
        hints.get(reason, f"look at {path} on {name}"),
        {"reason": reason, "path": path},
    )


def agent_gone(name: str, status: int | None, said: str) -> UnreachableError:
    """The agent, or the link under it, ended."""
    how = "the link ended" if status is None else f"the agent ended with status {status}"
    told = f": {_last(said)}" if said.strip() else ""
    return UnreachableError(
        f"{name}: {how}{told}",
        "procedures on the host go on without it; ask again",
        {"reason": "ended", "status": status, "stderr": said[-2000:]},
    )


def link_lost(name: str, reason: str) -> UnreachableError:
    """The connection broke."""
    return UnreachableError(
        f"{name}: the link broke: {reason or 'closed by the other side'}",
        "procedures on the host go on without it; ask again",
        {"reason": "link"},
    )


def silent(name: str, seconds: float) -> UnreachableError:
    """The host was heard before and is not heard any more."""
    return UnreachableError(
        f"{name}: the host went silent: nothing heard for {seconds:.0f} s, no answer to a ping",
        "procedures on the host go on without the link; ask again when the host answers",
        {"reason": "silent", "seconds": round(seconds, 1)},
    )


def no_answer(name: str, method: str, seconds: float) -> UnreachableError:
    """The host is heard, but this request is not answered."""
    return UnreachableError(
        f"{name}: no answer to {method} within {seconds:g} s",
        "the host may be overloaded; ask again, or raise timeout in the inventory",
        {"reason": "no-answer", "method": method},
    )


def bad_wire(name: str, reason: str) -> UnreachableError:
    """The other side does not keep to the protocol."""
    return UnreachableError(
        f"{name}: the agent's talk cannot be understood: {reason}",
        "run it again; if it stays, report it with --debug",
        {"reason": "protocol"},
    )


def closed(name: str) -> UnreachableError:
    """We ended the conversation ourselves."""
    return UnreachableError(f"{name}: the session was closed here", None, {"reason": "closed"})


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
