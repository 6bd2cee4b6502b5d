"""Logging in with keys, from files and from ssh-agent.

Owns: loading keys and offering them. Refuses: passwords.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import paramiko

from oeactl.edges.ssh import keys as ordered
from oeactl.edges.ssh.config import Route

AGENT_S = 5.0
KEY_CLASSES = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


class Login:
    """Offer keys in the order of ``keys.in_order``, and say what became of each."""

    def __init__(self, route: Route, passphrase: Callable[[str], str | None] | None) -> None:
        self._route = route
        self._passphrase = passphrase

    def authenticate(self, transport: paramiko.Transport) -> Any:
        attempts: list[ordered.Attempt] = []
        allowed: list[str] = []
        agent = _Agent(self._route.agent_socket)
        try:
            for key in ordered.in_order(self._route, agent.keys, lambda key: key.asbytes()):
                shown = key if isinstance(key, str) else f"agent key {key.comment or key.get_name()}"
                outcome = self._offer(transport, key, allowed)
                if outcome is None:
                    return attempts
                attempts.append(ordered.Attempt(key=shown, outcome=outcome))
                if not transport.is_active():
                    break
        finally:
            agent.close()
        raise ordered.refusal(self._route, attempts, allowed, hung_up=not transport.is_active())

    def _offer(self, transport: paramiko.Transport, key: Any, allowed: list[str]) -> str | None:
        """None when we are in; else what became of this key."""
        if isinstance(key, str):
            loaded = _load(key, self._passphrase)
            if isinstance(loaded, str):
                return loaded
            key = loaded
        try:
            further = transport.auth_publickey(self._route.user, key)
        except paramiko.BadAuthenticationType as error:
            allowed[:] = error.allowed_types
            return "not taken"
        except paramiko.AuthenticationException:
            return "not taken"
        except (paramiko.SSHException, EOFError, OSError) as error:
            return str(error) or type(error).__name__
        return f"taken, but the server wants more: {', '.join(further)}" if further else None


def _load(path: str, ask: Callable[[str], str | None] | None) -> paramiko.PKey | str:
    """The private key in a file, or why there is none."""
    encrypted = False
    for kind in KEY_CLASSES:
        try:
            return kind.from_private_key_file(path)
        except paramiko.PasswordRequiredException:
            encrypted = True
        except (paramiko.SSHException, ValueError, IndexError):
            continue
        except OSError as error:
            return error.strerror or str(error)
    if not encrypted:
        return "not a key that this client can use (hardware-backed keys work through ssh-agent only)"
    passphrase = ask(path) if ask else None
    if passphrase is None:
        return "it is encrypted, and no passphrase was given"
    for kind in KEY_CLASSES:
        with suppress(paramiko.SSHException, ValueError, IndexError):
            return kind.from_private_key_file(path, password=passphrase)
    return "wrong passphrase"


class _Agent:
    """ssh-agent at a given socket; none there is an agent without keys."""

    def __init__(self, path: str | None) -> None:
        self.keys: Sequence[paramiko.AgentKey] = ()
        self._agent: Any = None
        if path is None:
            return
        with suppress(OSError, paramiko.SSHException):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(AGENT_S)
            connection.connect(path)
            self._agent = paramiko.agent.AgentSSH()
            self._agent._connect(connection)
            self.keys = self._agent.get_keys()

    def close(self) -> None:
        if self._agent is not None:
            self._agent._close()
