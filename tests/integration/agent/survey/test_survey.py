"""What preflight says of processes that really do what CRIU cannot save."""

import os
import shutil
import socket
from pathlib import Path

import pytest

from gpuguard.agent.survey import task_findings as survey_tasks
from gpuguard.agent.survey.survey import Survey, survey_job
from gpuguard.model.plans import Finding, Level
from tests.integration.agent.odd_jobs import PROGRAMS, UnsupportedError, running
from tests.unit.agent.job_records import job_of

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="looks into other processes")
pytestmark = ROOT


def codes(survey: Survey) -> dict[str, Finding]:
    return {item.code: item for item in survey.findings}


@pytest.mark.parametrize("code", PROGRAMS)
def test_real_process_with(code: str, tmp_path: Path) -> None:
    program, words = PROGRAMS[code]
    try:
        with running(program, tmp_path) as process:
            found = codes(survey_job(job_of(process.pid)))
    except UnsupportedError as error:
        pytest.skip(str(error))
    assert set(found) == {code}
    assert words in found[code].text, found[code].text
    assert found[code].remedy


def test_plain_process_has_nothing_against_it(tmp_path: Path) -> None:
    program = """
        import select
        held = [open('log', 'a'), open('/dev/null'), open('/dev/urandom'), socket.socketpair(),
                os.pipe(), select.epoll(), socket.socket(16, 3, 0), os.pidfd_open(os.getpid()),
                os.memfd_create('x'), open('/proc/self/status'),
                socket.create_server(('127.0.0.1', 0))]
        syscall(283, 1, 0), syscall(290, 0, 0), syscall(294, 0)
        subprocess.Popen(['sleep', '60'])
    """
    with running(program, tmp_path) as process:
        assert survey_job(job_of(process.pid)).findings == []


def test_open_connection_refuses_where_the_policy_says_so(tmp_path: Path) -> None:
    with running(PROGRAMS["tcp-closed"][0], tmp_path) as process:
        found = codes(survey_job(job_of(process.pid, tcp="refuse")))
    assert found["tcp-open"].level is Level.ERROR


def test_unix_peers_are_named_with_pid_command_and_path(tmp_path: Path) -> None:
    stream, datagram = str(tmp_path / "stream"), str(tmp_path / "datagram")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX, 2) as log:
        server.bind(stream)
        server.listen()
        log.bind(datagram)
        program = f"""
            s = socket.socket(1); s.connect({stream!r})
            d = socket.socket(1, 2); d.connect({datagram!r})
        """
        with running(program, tmp_path) as process:
            accepted, _ = server.accept()
            with accepted:
                found = codes(survey_job(job_of(process.pid)))
    assert set(found) == {"unix-stream-outside", "unix-datagram-outside"}
    for code, path in (("unix-stream-outside", stream), ("unix-datagram-outside", datagram)):
        assert f"process {os.getpid()} (" in found[code].text
        assert path in found[code].text


def test_pipe_to_a_process_outside(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        with running("", tmp_path, pass_fds=(writer,)) as process:
            os.close(writer)
            found = codes(survey_job(job_of(process.pid)))
    finally:
        os.close(reader)
    assert set(found) == {"shared-outside"}
    assert f"process {os.getpid()}" in found["shared-outside"].text


def test_terminal(tmp_path: Path) -> None:
    leader, follower = os.openpty()
    name = os.ttyname(follower)
    try:
        with running("", tmp_path, pass_fds=(follower,)) as process:
            found = codes(survey_job(job_of(process.pid)))
    finally:
        os.close(leader)
        os.close(follower)
    assert set(found) == {"terminal"}
    assert name in found["terminal"].text


def test_vfork_that_never_ends(tmp_path: Path) -> None:
    program = """
        import threading
        def hang():
            libc.vfork.restype = ctypes.c_int
            if libc.vfork() == 0:
                while True: libc.pause()
        threading.Thread(target=hang, daemon=True).start(); time.sleep(0.3)
    """
    with running(program, tmp_path) as process:
        found = codes(survey_job(job_of(process.pid)))
    assert "uninterruptible" in found
    assert f"process {process.pid}" in found["uninterruptible"].text


def test_tracer_is_named(tmp_path: Path) -> None:
    program = """
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
        syscall(101, 0x4206, pid, 0, 0)
        print(pid, file=open('traced', 'w'))
    """
    with running(program, tmp_path) as process:
        child = int((tmp_path / "traced").read_text())
        found = codes(survey_job(job_of(process.pid)))
    assert f"process {child} (python" in found["traced"].text
    assert f"by process {process.pid} (" in found["traced"].text


def test_semaphore_that_has_its_name_still(tmp_path: Path) -> None:
    program = """
        name = b'/gpuguard-%d' % os.getpid()
        libc.sem_open.restype = ctypes.c_void_p
        libc.sem_open(name, os.O_CREAT | os.O_EXCL, 0o600, 1)
        print(name.decode(), file=open('name', 'w'))
    """
    with running(program, tmp_path) as process:
        found = codes(survey_job(job_of(process.pid)))
    Path("/dev/shm/sem." + (tmp_path / "name").read_text().strip()[1:]).unlink()
    assert set(found) == {"semaphore-named"}


def test_other_user_without_the_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv")
    tmp_path.chmod(0o777)
    options = ("setpriv", "--reuid", "65534", "--clear-groups")
    with running("", tmp_path, *options) as process:
        job = job_of(process.pid)
        monkeypatch.setattr(survey_tasks, "_capabilities", lambda: 0)
        found = codes(survey_job(job))
        monkeypatch.setattr(survey_tasks, "_capabilities", lambda: 1 << 24)
        assert "rights-user" not in codes(survey_job(job))
    assert f"process {process.pid} of uid 65534" in found["rights-user"].text


def test_container_with_namespaces_of_its_own(tmp_path: Path) -> None:
    with running("", tmp_path, "unshare", "-m", "-n") as process:
        found = codes(survey_job(job_of(process.pid)))
    assert set(found) == {"container"}
    assert "mnt, net namespaces" in found["container"].text


def test_all_findings_at_once(tmp_path: Path) -> None:
    program = PROGRAMS["link-remap"][0] + "\n" + PROGRAMS["mptcp"][0] + "\n" + PROGRAMS["device"][0]
    with running(program, tmp_path) as process:
        assert set(codes(survey_job(job_of(process.pid)))) == {"link-remap", "mptcp", "device"}
