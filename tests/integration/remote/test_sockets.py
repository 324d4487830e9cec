"""A proxy's life ends with the connection that needed it."""

from pathlib import Path

from gpuguard.remote.sockets import run_proxy
from tests.system.kit import until


def test_a_proxy_is_ended_with_its_socket(tmp_path: Path) -> None:
    marks = tmp_path / "pid"
    # `sleep` ignores the end of its input, like a proxy that waits for its other side.
    sock = run_proxy(f"sh -c 'echo $$ > {marks}.new; mv {marks}.new {marks}; exec sleep 600'")
    until(marks.exists, what="the proxy's start")
    proxy = Path("/proc") / marks.read_text().strip()
    assert proxy.exists()
    sock.close()
    until(lambda: not proxy.exists(), what="the proxy's end")


def test_a_proxy_that_ended_first_is_no_trouble() -> None:
    sock = run_proxy("true")
    assert sock.recv(1) == b""
    sock.close()
    sock.close()
