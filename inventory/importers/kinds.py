"""What an inventory can be imported from."""

from enum import StrEnum


class Kind(StrEnum):
    """The form of the source."""

    SSH_CONFIG = "ssh-config"
    ANSIBLE = "ansible"
    HOSTS = "hosts"
