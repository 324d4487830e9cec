"""Takes a sandbox down, whatever state a crash left it in."""

import shutil
from pathlib import Path

from gpuguard.model.errors import GpuguardError
from gpuguard.sandbox import addresses, network
from gpuguard.sandbox.places import HostFolder, SandboxFolder
from gpuguard.sandbox.processes import end_process, namespace_inits, read_mark


def remove_sandbox(folder: SandboxFolder) -> None:
    """End every process and remove every link, route and file of a sandbox, its lock held.

    Relies on traces alone, not on a record, so that half a sandbox goes as well as a whole one.
    Raises GpuguardError naming what does not go; then nothing it needs for a new try is lost.
    """
    for host in _host_folders(folder):
        _end_host(host)
    subnet = addresses.claimed_subnet(folder.path)
    if subnet is not None:
        network.remove_network(subnet)
    _refuse_mounts(folder.path)
    _remove_files(folder.path)
    # Last, so that a crash before this point leaves the trace that the network needs.
    if subnet is not None:
        addresses.release_subnet(subnet, folder.path)


def _host_folders(folder: SandboxFolder) -> list[HostFolder]:
    hosts = folder.path / "hosts"
    return [HostFolder(path) for path in sorted(hosts.iterdir())] if hosts.exists() else []


def _end_host(host: HostFolder) -> None:
    marks = [read_mark(host.keeper), read_mark(host.init), *namespace_inits(str(host.path))]
    for mark in marks:
        if mark:
            end_process(mark)


def _refuse_mounts(path: Path) -> None:
    """Refuse to delete through a mount: whatever is mounted there is not the sandbox's."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4]
        if point == str(path) or point.startswith(f"{path}/"):
            raise GpuguardError(
                f"sandbox: {point} is a mount inside the sandbox's folder", f"umount {point}"
            )


def _remove_files(path: Path) -> None:
    # The lock goes last: whoever waits for it then finds that the sandbox is gone.
    for entry in path.iterdir():
        if entry.name == "lock":
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (path / "lock").unlink()
    path.rmdir()
