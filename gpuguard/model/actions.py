"""The remedies a fault can call for."""

from enum import Enum


class Action(str, Enum):
    """The smallest sufficient remedy, from the mildest to the hardest."""

    NONE = "none"
    RESTART_JOB = "restart_job"
    RESET_GPU = "reset_gpu"
    RESET_GROUP = "reset_group"
    REBOOT = "reboot"
    POWER_CYCLE = "power_cycle"
    REPLACE = "replace"

    @property
    def rank(self) -> int:
        """The place in the order from mild to hard."""
        return list(Action).index(self)
