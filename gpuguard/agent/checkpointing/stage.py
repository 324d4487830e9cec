"""The node's own fast folder in which a checkpoint is made before it goes to the store."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from gpuguard.checkpoint.manifest_checks import SUBFOLDERS
from gpuguard.model.errors import GpuguardError, RefusedError

_FOLDER_MODE = 0o700


@dataclass(frozen=True)
class Stage:
    """The folder of one checkpoint in the making."""

    folder: Path

    @property
    def images(self) -> Path:
        """CRIU's images."""
        return self.folder / "images"

    @property
    def logs(self) -> Path:
        """CRIU's logs and our journal."""
        return self.folder / "logs"

    def make(self) -> None:
        """Make the folders anew; what an earlier try left there would spoil the images.

        Raises:
            GpuguardError: the stage is full, read-only or used already.
        """
        try:
            self.folder.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            self.folder.mkdir(mode=_FOLDER_MODE)
            for name in SUBFOLDERS:
                (self.folder / name).mkdir(mode=_FOLDER_MODE)
        except OSError as error:
            hint = "free the stage, or name another in the policy, then gpuguard doctor"
            text = f"the stage {self.folder.parent} cannot be used: {error}"
            raise GpuguardError(text, hint) from error

    def image_sizes(self) -> dict[str, int]:
        """Return the bytes of each image by name."""
        return {item.name: item.stat().st_size for item in self.images.iterdir()}

    def remove(self, keep: Path) -> None:
        """Remove everything, after moving CRIU's log into the folder `keep`.

        Raises:
            OSError: the stage cannot be removed.
        """
        log = self.logs / "dump.log"
        if log.exists():
            shutil.copyfile(log, keep / "dump.log")
        if self.folder.exists():
            shutil.rmtree(self.folder)


def free_bytes(folder: Path) -> int:
    """Return the bytes free below `folder`, or below its nearest parent that exists."""
    here = folder
    while not here.exists() and here != here.parent:
        here = here.parent
    state = os.statvfs(here)
    return state.f_bavail * state.f_frsize


def require_executable(folder: Path) -> None:
    """Check that the commit gate's script can run on the stage's file system.

    Raises:
        RefusedError: it is mounted noexec.
    """
    here = folder
    while not here.exists() and here != here.parent:
        here = here.parent
    if os.statvfs(here).f_flag & os.ST_NOEXEC:
        raise RefusedError(
            f"the stage {folder} is on a file system mounted noexec: the commit gate cannot run",
            "name another stage in the policy",
        )
