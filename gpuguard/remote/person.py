"""Who works here: the name of the user this program runs as."""

import os
import pwd


def login_name() -> str:
    """Return the user's name, or the user's number where the system knows no name for it."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a number without an account
        return str(os.getuid())
