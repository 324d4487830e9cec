"""What the words of the fault catalogs come down to: one action, and whether a person must look."""

from dataclasses import dataclass
from typing import Optional

from gpuguard.model.actions import Action

NOTHING_KNOWN = "contact_support"  # the answer to a number that no catalog has


@dataclass(frozen=True)
class Remedy:
    """An action, and whether the device waits for a person before it works again."""

    action: Action
    person: bool = False


def remedy_of(word: str) -> Remedy:
    """Return what `word` of the Xid, SXid or reset vocabulary comes down to.

    Raises:
        KeyError: no vocabulary has this word.
    """
    return _REMEDIES[word]


def words() -> frozenset[str]:
    """Return every word that has a remedy."""
    return frozenset(_REMEDIES)


_REMEDIES = {
    "none": Remedy(Action.NONE),
    # Xid: act on something else, or look
    "follow_primary_fault": Remedy(Action.NONE),
    "follow_recovery_action": Remedy(Action.NONE),  # until the driver's field was asked
    "check_application": Remedy(Action.RESTART_JOB),
    "investigate_software": Remedy(Action.NONE),
    "investigate_software_then_link": Remedy(Action.NONE),
    "investigate_peer": Remedy(Action.NONE),
    "investigate_host": Remedy(Action.NONE),
    "check_link_signal": Remedy(Action.NONE),
    "check_link_history": Remedy(Action.NONE),
    "contact_support_if_repeated": Remedy(Action.NONE),
    "update_software": Remedy(Action.NONE, person=True),
    "contact_support": Remedy(Action.NONE, person=True),
    # Xid: restart
    "restart_app": Remedy(Action.RESTART_JOB),
    "recovery_action_else_restart_app": Remedy(Action.RESTART_JOB),
    "workflow_xid_13": Remedy(Action.RESTART_JOB),
    "workflow_xid_31": Remedy(Action.RESTART_JOB),
    "workflow_xid_45": Remedy(Action.RESTART_JOB),
    "workflow_xid_137": Remedy(Action.RESTART_JOB),
    "drain_p2p": Remedy(Action.RESTART_JOB),
    # Xid: reset, where a workflow stands for what holds when it cannot be walked
    "check_uvm": Remedy(Action.RESET_GPU),
    "workflow_xid_48": Remedy(Action.RESET_GPU),
    "workflow_xid_74": Remedy(Action.RESET_GPU),
    "workflow_nvlink5": Remedy(Action.RESET_GPU),
    "drain_and_reset": Remedy(Action.RESET_GPU),
    "reset_gpu": Remedy(Action.RESET_GPU),
    "recover_imex_domain": Remedy(Action.RESET_GROUP),
    "reset_fabric": Remedy(Action.RESET_GROUP),
    # Xid: the host
    "restart_vm": Remedy(Action.REBOOT),
    "workflow_xid_168": Remedy(Action.REBOOT),
    "reboot_node": Remedy(Action.REBOOT),
    "check_mechanicals": Remedy(Action.POWER_CYCLE, person=True),
    # SXid
    "check_cooling": Remedy(Action.NONE, person=True),
    "check_link": Remedy(Action.NONE, person=True),
    "fix_partition": Remedy(Action.NONE, person=True),
    "reset_link_partition": Remedy(Action.RESET_GROUP),
    # resets
    "evict_holders": Remedy(Action.NONE),
    "reset_group": Remedy(Action.RESET_GROUP),
    "reset_all_gpus": Remedy(Action.RESET_GROUP),
    "power_cycle_node": Remedy(Action.POWER_CYCLE),
    "replace_node": Remedy(Action.REPLACE, person=True),
    "isolate_rma": Remedy(Action.REPLACE, person=True),
}

_RECOVERY_ACTION_WORDS = {
    0: "none",
    1: "reset_gpu",
    2: "reboot_node",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex_domain",
    6: "reset_gpu",
    7: "reboot_node",
}


def recovery_word(value: int) -> Optional[str]:
    """Return the word for a driver's recovery action by its number, None for a new number."""
    return _RECOVERY_ACTION_WORDS.get(value)
