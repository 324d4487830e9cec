"""From a host of the inventory to a session with its agent."""

import threading
from pathlib import Path

from gpuguard.model.inventory import Host
from gpuguard.remote.archive import Bundle, make_bundle
from gpuguard.remote.bootstrap import greet, start_command
from gpuguard.remote.client import AgentSession, Patience
from gpuguard.remote.local import open_local
from gpuguard.remote.person import login_name
from gpuguard.remote.routes import Routes


class Opener:
    """Open sessions; the agent's bundle, keys, settings and jump hosts are shared by all."""

    def __init__(
        self, inventory_dir: Path, routes: Routes | None = None, bundle: Bundle | None = None
    ) -> None:
        self._routes = routes or Routes(inventory_dir)
        self._bundle = bundle
        self._lock = threading.Lock()

    def open(self, host: Host) -> AgentSession:
        """Connect to `host`, send the agent if it is not there, and exchange greetings.

        Raises:
            UnreachableError: the host did not answer, or did not let us in.
            RefusedError: its host key is unknown, has changed or is revoked.
        """
        bundle = self._take_bundle()
        patience = Patience(call=host.timeout)
        if host.transport == "local":
            return greet(host, login_name(), open_local(host, bundle), bundle, patience)
        with self._routes.connect(host) as connection:
            user = connection.route.user
            link = connection.execute(start_command(bundle, _needs_sudo(host, user)))
        return greet(host, user, link, bundle, patience)

    def close(self) -> None:
        """Close the connections to jump hosts."""
        self._routes.close()

    def _take_bundle(self) -> Bundle:
        with self._lock:
            if self._bundle is None:
                self._bundle = make_bundle()
            return self._bundle


def _needs_sudo(host: Host, user: str) -> bool:
    return host.sudo and user != "root"
