"""Machines over SSH. Nothing outside this folder imports fabric or paramiko, and nothing before it is needed.

Owns: the way in. Refuses: to log in before the first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from oeactl.ports import Remote


def open_ssh(
    *,
    name: str,
    address: str,
    port: int | None = None,
    user: str | None = None,
    identity_file: str | None = None,
    proxy_jump: str | None = None,
    ssh_config: str | None = None,
    connect_timeout_s: float = 10.0,
    dead_after_s: float = 15.0,
    environment: Mapping[str, str] = os.environ,
    passphrase: Callable[[str], str | None] | None = None,
) -> Remote:
    """A remote that logs in at its first use. OpenSSH is asked for the way, and a socket opened, at once.

    None leaves a value to OpenSSH's configuration.

    dead_after_s: without an answer and without a byte moving for so long, the peer counts as dead.
    passphrase: what opens an encrypted key file, given its path; None where it stays closed.

    Raises UsageError, at the first use, for a configuration that cannot be followed.
    """
    from oeactl.edges.ssh.approach import Approach
    from oeactl.edges.ssh.config import Target

    target = Target(
        address=address,
        port=port,
        user=user,
        identity_file=identity_file,
        proxy_jump=proxy_jump,
        ssh_config=ssh_config,
    )
    approach = Approach(target, environment, connect_timeout_s)  # before an import that takes as long
    from oeactl.edges.ssh.dial import Dialer
    from oeactl.edges.ssh.remote import SshRemote

    return SshRemote(name, Dialer(name, approach, connect_timeout_s, dead_after_s, passphrase))
