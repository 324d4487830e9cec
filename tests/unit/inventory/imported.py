"""A home with an OpenSSH configuration to import from, and what an imported text holds."""

from pathlib import Path

from gpuguard.inventory.load import parse_inventory
from gpuguard.model.inventory import Inventory

SSH_CONFIG = """\
Include fleet/*.conf
Host=plain "two words" gpu? *.lan !not
  Port 2200
Host alias other
  HostName 10.9.9.9
  User ops
  IdentityFile ~/.ssh/special
  ProxyJump jump
Match host plain exec "true"
  User matched
Host *
  ServerAliveInterval 5
"""


def make_home(folder: Path) -> Path:
    ssh = folder / ".ssh"
    (ssh / "fleet").mkdir(parents=True)
    (ssh / "config").write_text(SSH_CONFIG)
    (ssh / "fleet" / "a.conf").write_text("host inner # not-a-host\n  HostName 10.1.1.1\n")
    return folder


def loaded(text: str) -> Inventory:
    return parse_inventory(text, Path("/i.yaml"))
