"""Links that are slow, or that stall: one is waited for, the other ends in time and leaves no doubt."""

from __future__ import annotations

import getpass
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oeactl.errors import ConnectionLost, Degraded, OeactlError, Unreachable
from oeactl.flows.site import look_settled
from tests.faults.faults import gate, patched_contents
from tests.faults.ground import DEAD_AFTER_S, ORIGINAL, Ground, Kind, Operator, Relay
from tests.faults.table import ground

pytestmark = pytest.mark.sshd
CONNECTS_S = 5.0
"""Long enough for a login on a loaded machine, and no more: each one over a stalled link waits for it."""


@pytest.fixture(scope="module")
def here() -> Iterator[Ground]:
    with ground() as made:
        yield made


@pytest.fixture
def relay(here: Ground) -> Iterator[Relay]:
    assert here.server is not None
    made = Relay(here.server.port)
    yield made
    made.close()


def test_a_slow_link_is_waited_for(here: Ground, relay: Relay) -> None:
    relay.delay_s = 0.05
    subject = here.subject("patch")
    with subject.operator(here.ssh(port=relay.port)) as operator:
        assert operator.carry_out("patch") == "patched"
        assert operator.carry_out("revert") == "reverted"
    assert subject.contents() == ORIGINAL


@pytest.mark.parametrize("kind", ["patch", "revert"])
def test_a_link_that_stalls_ends_in_time_is_unknown_and_the_next_command_tells(
    here: Ground, relay: Relay, kind: Kind
) -> None:
    """No byte passes any more and nobody is told; the host goes on by itself."""
    patched = patched_contents(here)
    subject = here.subject(kind)
    step = next(step["number"] for step in here.steps(kind) if step["name"] == "rename")
    begun = time.monotonic()
    with gate(subject, relay.stall) as paused:
        remote = here.ssh(port=relay.port, connect_timeout_s=CONNECTS_S)
        with subject.operator(remote, fault=paused.fault(step)) as operator:
            error = failure(operator, kind)
    assert time.monotonic() - begun < 20 * DEAD_AFTER_S
    assert error.exit_code == 7
    assert isinstance(error, Degraded if kind == "patch" else ConnectionLost)
    assert "oeactl" in str(error.hint) or "again" in str(error.hint)
    with subject.operator(here.ssh()) as operator:
        survey = look_settled(operator.site, ())
        contents = subject.contents()
        assert contents in (ORIGINAL, patched)
        assert bool(survey.journal.layers) == (contents == patched)
        operator.carry_out("revert", "afterwards")
    assert subject.contents() == ORIGINAL
    assert subject.left_behind() == []


def failure(operator: Operator, kind: Kind) -> OeactlError:
    with pytest.raises(OeactlError) as caught:
        operator.carry_out(kind)
    return caught.value


def test_a_host_that_stalls_before_anything_was_sent_is_unreachable(here: Ground, relay: Relay) -> None:
    relay.stall()
    subject = here.subject("patch")
    begun = time.monotonic()
    with subject.operator(here.ssh(port=relay.port, connect_timeout_s=CONNECTS_S)) as operator:
        error = failure(operator, "patch")
    assert time.monotonic() - begun < 6 * CONNECTS_S
    assert isinstance(error, Unreachable)
    assert error.exit_code == 4
    assert subject.contents() == ORIGINAL
    assert not subject.state.exists()


def test_keys_named_in_an_included_file_under_match_are_used(here: Ground, tmp_path: Path) -> None:
    from oeactl.edges.ssh import open_ssh

    server = here.server
    assert server is not None
    more = tmp_path / "more"
    more.write_text(
        f"Match originalhost box\n  HostName {server.address}\n  Port {server.port}\n"
        f"  IdentityFile {server.identity_file}\n"
    )
    user = getpass.getuser()
    known = f"Host *\n  UserKnownHostsFile {server.known_hosts}\n  GlobalKnownHostsFile none\n"
    config = tmp_path / "config"
    config.write_text(
        f"Include {more}\n{known}  User {user}\n  IdentitiesOnly yes\n  ProxyJump nowhere.invalid\n"
    )
    remote = open_ssh(name="lab", address="box", ssh_config=str(config), proxy_jump="none", environment={})
    assert remote.run(("printf", "in")).stdout == b"in"
    remote.close()
