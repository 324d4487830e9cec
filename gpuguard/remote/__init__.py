"""Connections to hosts and the client side of the agent."""

import sys

# paramiko imports it for `Match exec` of an ssh_config, which `ssh -G` reads for us: 30 ms saved.
sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]
