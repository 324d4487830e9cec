"""The rules of compatibility that compare files: programs, open files, folders, room, locks."""

from collections import Counter
from typing import Optional

from gpuguard.checkpoint.file_decisions import FileAction
from gpuguard.checkpoint.host_seen import HostSeen, ProgramSeen
from gpuguard.model.manifests import Manifest, OpenFile

Answer = tuple[str, list[tuple[str, str]]]

_MIB = 1024 * 1024
_WORDS = {
    FileAction.LEAVE: "as they were",
    FileAction.CREATE: "made from the checkpoint",
    FileAction.CREATE_EMPTY: "begun anew",
    FileAction.MAKE_FOLDER: "folders made",
    FileAction.MAKE_FIFO: "pipes made",
    FileAction.CUT: "cut back, the tail kept aside",
    FileAction.REPLACE: "replaced, what is there kept aside",
}


def is_program(item: OpenFile) -> bool:
    """Tell whether a file is code or data that was only mapped, such as a library."""
    return item.mapped and not item.writable and not item.deleted and item.captured is None


def programs(manifest: Manifest, seen: HostSeen) -> Answer:
    """Compare program and libraries: there, size, build id; everything in one list."""
    wanted = [item for item in manifest.open_files if is_program(item)]
    known = {item.path for item in wanted}
    wrong = [_program(item, seen.programs.get(item.path)) for item in wanted]
    wrong += [
        f"{exe} is missing"
        for exe in dict.fromkeys(process.exe for process in manifest.tree)
        if exe and not exe.endswith(" (deleted)") and exe not in known and exe not in seen.programs
    ]
    listed = [text for text in wrong if text]
    proved = sum(1 for item in wanted if item.build_id)
    text = f"{len(wanted)} files of the same size, {proved} of them of the same build id"
    return text, [("programs-differ", "; ".join(listed))] if listed else []


def _program(item: OpenFile, there: Optional[ProgramSeen]) -> Optional[str]:
    if there is None:
        return f"{item.path} is missing"
    if there.size != item.size:
        return f"{item.path} has {there.size} bytes, recorded {item.size}"
    if item.build_id is not None and there.build_id != item.build_id:
        return f"{item.path} has build id {there.build_id or 'none'}, recorded {item.build_id}"
    return None


def files(manifest: Manifest, seen: HostSeen) -> Answer:
    """Say what happens to each open file, or that one is missing or differs, in one list."""
    del manifest
    refused = [decision.text for decision in seen.files if decision.action is FileAction.REFUSE]
    counts = Counter(decision.action for decision in seen.files)
    told = [f"{counts[action]} {word}" for action, word in _WORDS.items() if counts[action]]
    text = ", ".join(told) or "none is open"
    return text, [("files-differ", "; ".join(refused))] if refused else []


def locks(manifest: Manifest, seen: HostSeen) -> Answer:
    """Find locks that others hold: CRIU would wait for them for ever."""
    held = [item.path for item in manifest.open_files if item.locked]
    text = "free: " + ", ".join(held) if held else "the job holds none"
    return text, [("lock-held", sentence) for sentence in seen.locks]


def folders(manifest: Manifest, seen: HostSeen) -> Answer:
    """Find working directories that cannot be made."""
    cwds = {process.cwd for process in manifest.tree if process.cwd}
    against = [("folder-blocked", f"{path} is no folder") for path in seen.blocked]
    return f"{', '.join(sorted(cwds)) or 'none'}: there, or made", against


def space(manifest: Manifest, seen: HostSeen) -> Answer:
    """Compare the files that are put in place with the room for them."""
    del manifest
    against = [
        (
            "space-short",
            f"{room.folder} has {room.free / _MIB:.1f} MiB free, {room.need / _MIB:.1f} are needed",
        )
        for room in seen.rooms
        if room.free < room.need
    ]
    need = sum(room.need for room in seen.rooms)
    where = ", ".join(room.folder for room in seen.rooms)
    return (
        f"{need / _MIB:.1f} MiB to put in {where}" if need else "nothing to put in place",
        against,
    )
