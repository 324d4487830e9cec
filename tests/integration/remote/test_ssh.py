"""Connections to real sshd processes: the good way, and each way it goes wrong."""

import contextlib
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpuguard.model.errors import RefusedError, UnreachableError, UsageError
from gpuguard.remote.client import AgentSession
from gpuguard.remote.opener import Opener
from gpuguard.remote.outcome import Outcome
from gpuguard.remote.pool import Pool
from gpuguard.remote.routes import Routes
from gpuguard.remote.settings import Settings
from tests.integration.remote.agents import stand_in_bundle
from tests.integration.remote.sshd import Farm, Server, descendants, kill, make_key, start_sshd

pytestmark = pytest.mark.timeout(180)  # many processes each: a busy machine takes its time


@contextlib.contextmanager
def pool_of(farm: Farm, config: str = "") -> Iterator[Pool]:
    """A pool that reads only its own OpenSSH settings."""
    file = farm.folder / "ssh_config"
    nothing = "UserKnownHostsFile none\nGlobalKnownHostsFile none\n"
    file.write_text(f"{config}\nHost *\n{nothing}")
    routes = Routes(farm.folder, Settings(file))
    opener = Opener(farm.folder, routes, stand_in_bundle(farm.folder))
    with Pool(farm.folder, opener=opener.open) as pool:
        yield pool
    opener.close()


def test_first_contact_sends_the_agent_and_later_ones_find_it(farm: Farm) -> None:
    server = farm.add(2)
    farm.wait()
    for _ in range(2):
        with pool_of(farm) as pool:
            session = pool.session(server.host())
            assert session.hello.host == "stand-in"
            assert session.call("echo", a=[1, "ü"]) == {"a": [1, "ü"]}
            assert pool.session(server.host()) is session
    agent = server.folder / "node" / "agent"
    folders = list(agent.iterdir())
    assert [folder.name for folder in folders] == [session.hello.agent]
    assert folders[0].stat().st_mode & 0o777 == 0o700
    assert list(folders[0].rglob("*.pyc"))


def test_unknown_key_is_refused_with_the_command_to_trust_it(farm: Farm) -> None:
    server = farm.add(2)
    farm.wait()
    (farm.folder / "known_hosts").unlink()
    with pool_of(farm) as pool, pytest.raises(RefusedError) as caught:
        pool.session(server.host())
    assert "is unknown (ssh-ed25519 SHA256:" in caught.value.message
    assert "gpuguard hosts trust gpu002" in (caught.value.hint or "")
    assert not (server.folder / "node").exists()


def test_changed_key_is_refused_even_where_new_ones_are_accepted(farm: Farm) -> None:
    server, other = farm.add(2), farm.add(3)
    farm.wait()
    known = farm.folder / "known_hosts"
    known.write_text(f"{server.lookup} {other.host_key}\n")
    host = server.host(host_keys="accept-new")
    with pool_of(farm) as pool, pytest.raises(RefusedError, match="has CHANGED") as caught:
        pool.session(host)
    assert "hosts trust --replace gpu002" in (caught.value.hint or "")
    assert known.read_text() == f"{server.lookup} {other.host_key}\n"


def test_new_key_is_recorded_where_the_inventory_says_so(farm: Farm) -> None:
    server = farm.add(2)
    farm.wait()
    known = farm.folder / "known_hosts"
    known.unlink()
    with pool_of(farm) as pool:
        pool.session(server.host(host_keys="accept-new"))
    assert known.read_text() == f"{server.lookup} {server.host_key}\n"


def test_refused_key_says_which_were_offered(farm: Farm) -> None:
    server = farm.add(2)
    farm.wait()
    wrong = make_key(farm.folder / "wrong")
    host = server.host(identity_files=[str(wrong)])
    with pool_of(farm) as pool, pytest.raises(UnreachableError, match="refused every key") as c:
        pool.session(host)
    assert str(wrong) in c.value.message


def test_no_key_to_offer(farm: Farm) -> None:
    server = farm.add(2)
    farm.wait()
    locked = farm.folder / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", locked], check=True)
    host = server.host(identity_files=[str(locked)])
    with pool_of(farm) as pool, pytest.raises(UnreachableError, match="no key to offer") as caught:
        pool.session(host)
    assert "needs its passphrase" in caught.value.message


def test_key_from_an_ssh_agent(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    server = farm.add(2)
    farm.wait()
    path = farm.folder / "agent.sock"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        while not path.exists():
            time.sleep(0.02)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        subprocess.run(["ssh-add", "-q", server.client_key], check=True, capture_output=True)
        host = server.host(identity_files=[str(farm.folder / "none")])
        with pool_of(farm) as pool:
            assert pool.session(host).call("echo") == {}
    finally:
        agent.terminate()
        agent.wait()


def test_nobody_listens(farm: Farm) -> None:
    server = farm.add(2)
    farm.wait()
    with pool_of(farm) as pool:
        with pytest.raises(UnreachableError, match="Connection refused"):
            pool.session(server.host(address="127.0.0.99"))
        with pytest.raises(UnreachableError, match="cannot be resolved"):
            pool.session(server.host(name="nx", address="no-such-name.invalid"))


@contextlib.contextmanager
def silent_listener() -> Iterator[socket.socket]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.9", 0))
        sock.listen()
        yield sock


def test_hang_after_accept(farm: Farm) -> None:
    server = farm.add(2)
    with silent_listener() as listener, pool_of(farm) as pool:
        port = listener.getsockname()[1]
        host = server.host(address="127.0.0.9", port=port, connect_timeout=0.3)
        started = time.monotonic()
        with pytest.raises(UnreachableError, match="hung at the SSH greeting"):
            pool.session(host)
        assert time.monotonic() - started < 8


def test_hang_after_login(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    server = farm.add(2, "ForceCommand sleep 60")
    farm.wait()
    monkeypatch.setattr("gpuguard.remote.bootstrap._START_AT_LEAST", 1.0)
    with pool_of(farm) as pool, pytest.raises(UnreachableError, match="hung at the start of the"):
        pool.session(server.host(timeout=1.0))


def test_no_python(farm: Farm) -> None:
    server = farm.add(2, "ForceCommand PATH=/nowhere; $SSH_ORIGINAL_COMMAND")
    farm.wait()
    with pool_of(farm) as pool, pytest.raises(UnreachableError, match="there is no python3"):
        pool.session(server.host())


def test_login_that_prints_first(farm: Farm) -> None:
    server = farm.add(2, 'ForceCommand echo "Welcome"; eval "$SSH_ORIGINAL_COMMAND"')
    farm.wait()
    with pool_of(farm) as pool:
        assert pool.session(server.host()).call("echo") == {}


def test_stopped_peer_is_noticed(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    server = farm.add(2)
    farm.wait()
    monkeypatch.setattr("gpuguard.remote.opener.Patience", _impatient)
    with pool_of(farm) as pool:
        session = pool.session(server.host())
        stopped = descendants(server.children())
        kill(stopped, signal.SIGSTOP)
        try:
            started = time.monotonic()
            with pytest.raises(UnreachableError, match="went silent"):
                session.stream("count", print, n=5, pause=60)
            assert time.monotonic() - started < 10
        finally:
            kill(stopped, signal.SIGCONT)
        assert pool.session(server.host()) is not session


def _impatient(call: float) -> Any:
    from gpuguard.remote.client import Patience

    return Patience(call=call, ping_after=0.5, silence=2.0)


def test_killed_connection_is_noticed_and_opened_again(farm: Farm) -> None:
    server = farm.add(2)
    farm.wait()
    with pool_of(farm) as pool:
        session = pool.session(server.host())
        server.cut()
        with pytest.raises(UnreachableError, match="the link"):
            session.call("sleep", seconds=30)
        assert pool.session(server.host()).call("echo") == {}


def test_through_two_jump_hosts(farm: Farm) -> None:
    target, first, second = farm.add(2), farm.add(3), farm.add(4)
    farm.wait()
    jumps = f"{first.host().user}@{first.address}:{first.port},second"
    config = (
        f"Host second\nHostName {second.address}\nPort {second.port}\n"
        f"Host *\nIdentityFile {target.client_key}\n"
    )
    with pool_of(farm, config) as pool:
        assert pool.session(target.host(proxy_jump=jumps)).call("echo") == {}
    deadline = time.monotonic() + 5
    while second.children():
        assert time.monotonic() < deadline, "the jump connection was not closed"
        time.sleep(0.05)


def test_many_hosts_share_one_connection_to_their_jump_host(farm: Farm) -> None:
    target, jump = farm.add(2), farm.add(3)
    farm.wait()
    way = f"{jump.host().user}@{jump.address}:{jump.port}"
    hosts = [target.host(name=f"h{n}", proxy_jump=way, connect_timeout=10) for n in range(12)]
    with pool_of(farm) as pool:
        outcomes = pool.map(hosts, lambda host, session: session.call("echo", name=host.name))
        assert {name: outcome.get() for name, outcome in outcomes.items()} == {
            host.name: {"name": host.name} for host in hosts
        }
        assert len(jump.children()) == 1


def test_death_of_the_jump_host_is_noticed(farm: Farm) -> None:
    target, jump = farm.add(2), farm.add(3)
    farm.wait()
    host = target.host(proxy_jump=f"{jump.host().user}@{jump.address}:{jump.port}")
    with pool_of(farm) as pool:
        session = pool.session(host)
        jump.cut()
        with pytest.raises(UnreachableError, match="the link"):
            session.call("sleep", seconds=30)
        assert pool.session(host).call("echo") == {}


def test_jump_host_with_an_unknown_key_is_refused_by_its_own_name(farm: Farm) -> None:
    target, jump = farm.add(2), farm.add(3)
    farm.wait()
    (farm.folder / "known_hosts").write_text(f"{target.lookup} {target.host_key}\n")
    host = target.host(proxy_jump=f"{jump.address}:{jump.port}")
    with pool_of(farm) as pool, pytest.raises(RefusedError) as caught:
        pool.session(host)
    assert f"gpuguard hosts trust {jump.address}" in (caught.value.hint or "")


def test_jump_hosts_in_a_circle(farm: Farm) -> None:
    server = farm.add(2)
    config = "Host a\nProxyJump b\nHost b\nProxyJump a\n"
    with pool_of(farm, config) as pool, pytest.raises(UsageError, match="in a circle"):
        pool.session(server.host(proxy_jump="a"))


def test_jump_host_down(farm: Farm) -> None:
    target = farm.add(2)
    farm.wait()
    with pool_of(farm) as pool, pytest.raises(UnreachableError, match="its jump host") as caught:
        pool.session(target.host(proxy_jump="127.0.0.98:1"))
    assert "Connection refused" in caught.value.message


def test_target_behind_the_jump_host_down(farm: Farm) -> None:
    jump = farm.add(3)
    farm.wait()
    config = f"Host *\nIdentityFile {jump.client_key}\n"
    host = jump.host(address="127.0.0.97", port=1, proxy_jump=f"{jump.address}:{jump.port}")
    with pool_of(farm, config) as pool, pytest.raises(UnreachableError, match="does not lead"):
        pool.session(host)


def test_proxy_command_and_proxyjump_none(farm: Farm) -> None:
    server = farm.add(2)
    farm.wait()
    relay = (
        "python3 -c 'import socket,sys,threading,os;s=socket.create_connection((sys.argv[1],"
        "int(sys.argv[2])));threading.Thread(target=lambda:[s.sendall(d) for d in "
        'iter(lambda:os.read(0,65536),b"")],daemon=True).start();'
        '[os.write(1,d) for d in iter(lambda:s.recv(65536),b"")]\' %h %p'
    )
    with pool_of(farm, f"Host *\nProxyCommand {relay}\n") as pool:
        assert pool.session(server.host()).call("echo") == {}
        assert pool.session(server.host(name="direct", proxy_jump="none")).call("echo") == {}


def test_sixteen_hosts_and_one_dead(farm: Farm) -> None:
    """The dead host hangs until all others have answered: it delays none of them."""
    servers = [farm.add(number) for number in range(2, 6)]
    farm.wait()
    arrived: list[str] = []
    with silent_listener() as listener, pool_of(farm) as pool:
        port = listener.getsockname()[1]
        hosts = [servers[n % 4].host(name=f"h{n}", connect_timeout=10) for n in range(15)]
        dead = servers[0].host(name="dead", address="127.0.0.9", port=port, connect_timeout=10)

        def note(host: Any, outcome: Outcome[Any]) -> None:
            arrived.append(host.name)
            if len(arrived) == 15:
                listener.close()

        def ask(host: Any, session: AgentSession) -> Any:
            return session.call("echo", name=host.name)

        outcomes = pool.map([dead, *hosts], ask, note)
    assert list(outcomes) == ["dead", *(host.name for host in hosts)]
    assert arrived[-1] == "dead"
    assert isinstance(outcomes["dead"].error, UnreachableError)
    assert all(outcomes[host.name].get() == {"name": host.name} for host in hosts)


def test_big_answer_and_two_streams_at_once(farm: Farm) -> None:
    server = farm.add(2)
    farm.wait()
    with pool_of(farm) as pool:
        session = pool.session(server.host())
        seen: dict[int, list[int]] = {1: [], 2: []}

        def follow(which: int) -> None:
            session.stream("count", lambda e: seen[which].append(e["turn"]), n=100, pause=0.002)

        threads = [threading.Thread(target=follow, args=(which,)) for which in seen]
        for thread in threads:
            thread.start()
        assert session.call("big", size=6_000_000) == "x" * 6_000_000
        assert session.call("chatter") == "done"
        for thread in threads:
            thread.join()
        assert seen == {1: list(range(100)), 2: list(range(100))}


def test_key_types_on_record_are_asked_for_first(farm: Farm) -> None:
    server = farm.add(2, f"HostKey {farm.folder}/gpu002/rsa_key")
    key = farm.folder / "gpu002" / "rsa_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", key], check=True)
    server.process.terminate()
    server.process.wait()
    farm.servers.clear()
    again = _restart(farm, server)
    words = key.with_suffix(".pub").read_text().split()
    (farm.folder / "known_hosts").write_text(f"{again.lookup} {words[0]} {words[1]}\n")
    with pool_of(farm) as pool:
        assert pool.session(again.host()).call("echo") == {}


def _restart(farm: Farm, server: Server) -> Server:
    server.process = start_sshd(server.folder)
    farm.servers.append(server)
    farm.wait()
    return server
