"""Over a real sshd: a server outlives the connection that began it, a job does not."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oeactl.edges.agent_link import AgentLink
from oeactl.edges.jobs import run_job
from oeactl.edges.servers.process import ProcessServer
from oeactl.edges.ssh import open_ssh
from oeactl.edges.telemetry import AgentTelemetry
from oeactl.errors import Unreachable
from oeactl.ports import Ready
from tests.support import sshd
from tests.support.patience import until
from tests.support.serving import Standin, Told, free_port

pytestmark = pytest.mark.sshd


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Sshd]:
    with sshd.running(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def link(host: sshd.Sshd) -> AgentLink:
    remote = open_ssh(name="lab", address=host.address, port=host.port, ssh_config=host.ssh_config)
    return AgentLink(remote, python=sys.executable)


def server(host: sshd.Sshd, standin: Standin) -> ProcessServer:
    return ProcessServer(
        link(host),
        root=lambda: str(standin.folder / "sglang"),
        state_dir=str(standin.state_dir),
        url=standin.url,
        log=str(standin.log),
        ready_timeout_s=60.0,
        grace_s=0.5,
    )


def test_a_server_outlives_the_connection_that_began_it(host: sshd.Sshd, tmp_path: Path) -> None:
    standin = Standin(tmp_path, free_port())
    try:
        launch = standin.launch("--workers", "plain", "--slow-start", "2")
        begun = time.monotonic()
        process = server(host, standin).start(launch)
        assert time.monotonic() - begun < 40
        host.signal_children(signal.SIGKILL)
        again = server(host, standin)
        outcome = again.await_ready(process, launch, Told())
        assert isinstance(outcome, Ready), outcome
        assert outcome.process == process
        again.stop(Told())
        assert standin.pids() == []
    finally:
        standin.clear()


def test_a_job_ends_with_its_connection(host: sshd.Sshd, tmp_path: Path) -> None:
    def cut(line: str) -> None:
        host.signal_children(signal.SIGKILL)

    code = f"echo $$ > {tmp_path}/pid; echo begun; exec sleep 60"
    with pytest.raises(Unreachable):
        run_job(link(host), argv=("sh", "-c", code), env={}, deadline_s=60.0, on_line=cut)
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists(), 50.0)


def test_a_host_is_watched_over_ssh_while_other_questions_go_the_same_way(host: sshd.Sshd) -> None:
    """And what watches it there ends when the connection does, with nobody waiting for it."""
    agent = link(host)
    watching = AgentTelemetry(agent, url=f"http://127.0.0.1:{free_port()}", every_s=0.1)
    with watching.watching([]) as samples:
        limit = time.monotonic() + 90
        while len(samples.between(0.0, time.time())) < 3 and time.monotonic() < limit:
            done = run_job(agent, argv=("true",), env={}, deadline_s=30.0)
            assert done.returncode == 0
        taken = samples.between(0.0, time.time())
    assert len(taken) >= 3, samples.why()
    assert taken[-1].cpu_busy is not None
    assert "Connection refused" in taken[-1].why["metrics"]
    agent.close()
