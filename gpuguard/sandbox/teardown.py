"""Takes a sandbox down, whatever state a crash left it in."""

import shutil
from pathlib import Path

from gpuguard.model.errors import GpuguardError
from gpuguard.sandbox import addresses, network
from gpuguard.sandbox.lock import locked
from gpuguard.sandbox.places import HostFolder, SandboxFolder
from gpuguard.sandbox.processes import end_processes, namespace_inits, read_mark


def take_down(folder: SandboxFolder) -> bool:
    """Remove a sandbox, also half of one; say whether there was any.

    Raises GpuguardError naming what does not go.
    """
    if not folder.path.exists() and addresses.claimed_subnet(folder.path) is None:
        return False
    with locked(folder.lock, make_folder=True):
        remove_sandbox(folder)
    return True


def remove_sandbox(folder: SandboxFolder) -> None:
    """End every process and remove every link, route and file of a sandbox, its lock held.

    Relies on traces alone, not on a record, so that half a sandbox goes as well as a whole one.
    Raises GpuguardError naming what does not go; then nothing it needs for a new try is lost.
    """
    hosts = _host_folders(folder)
    marks = [read_mark(file) for host in hosts for file in (host.keeper, host.init)]
    end_processes([*marks, *namespace_inits(folder.path / "hosts")])
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
