"""What a sandbox consists of, written down before any of it is made."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from gpuguard.model.errors import GpuguardError
from gpuguard.sandbox.recipe import CriuKind

_FIRST_HOST = 10  # the last byte of host 1's address, less one


@dataclass(frozen=True)
class HostRecord:
    """One host of a sandbox."""

    name: str
    number: int  # 1, 2, …
    kind: CriuKind
    base: str  # absolute path of its base root


@dataclass(frozen=True)
class SandboxRecord:
    """One sandbox; links, route and addresses follow from the subnet's number."""

    name: str
    subnet: int  # the x of 198.18.x.0/24
    hosts: tuple[HostRecord, ...]

    @property
    def network(self) -> str:
        """Return the sandbox's range."""
        return f"198.18.{self.subnet}.0/24"

    @property
    def gateway(self) -> str:
        """Return the machine's own address on the bridge."""
        return f"198.18.{self.subnet}.1"

    @property
    def bridge(self) -> str:
        """Return the bridge's name."""
        return f"gg{self.subnet}"

    def address(self, host: HostRecord) -> str:
        """Return the address of a host."""
        return f"198.18.{self.subnet}.{_FIRST_HOST + host.number}"

    def mac(self, number: int) -> str:
        """Return a cable's hardware address: a host's own, 0 for the bridge."""
        return f"02:67:67:{self.subnet:02x}:00:{number:02x}"

    def link(self, host: HostRecord) -> str:
        """Return the name of the machine's end of a host's cable."""
        return f"gg{self.subnet}h{host.number}"


def load_record(path: Path) -> SandboxRecord | None:
    """Return the record, or None if there is none; raise GpuguardError if it cannot be read."""
    try:
        data = json.loads(path.read_text())
        hosts = tuple(HostRecord(**{**h, "kind": CriuKind(h["kind"])}) for h in data["hosts"])
        return SandboxRecord(str(data["name"]), int(data["subnet"]), hosts)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise GpuguardError(
            f"{path}: not a sandbox's record: {error}", "gpuguard sandbox down removes the sandbox"
        ) from error


def save_record(path: Path, record: SandboxRecord) -> None:
    """Write the record in one go."""
    partial = path.with_suffix(".partial")
    with partial.open("w") as file:
        json.dump(asdict(record), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
