"""Names are resolved as OpenSSH does, hop by hop; what cannot be followed is said."""

from __future__ import annotations

import ast
import base64
import getpass
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import oeactl
from oeactl.edges.ssh.config import Route, Target, chain, parse_hop, resolve
from oeactl.edges.ssh.host_keys import HostKeys
from oeactl.edges.ssh.keys import in_order
from oeactl.errors import Unreachable, UsageError

needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client is installed here")


def route(**changes: object) -> Route:
    fields: dict[str, object] = {
        "hostname": "lab",
        "port": 22,
        "user": "ann",
        "identities": (),
        "identities_only": False,
        "agent_socket": None,
        "proxy_jump": None,
        "proxy_command": None,
        "host_key_alias": None,
        "known_hosts": (),
    }
    return Route(**{**fields, **changes})  # type: ignore[arg-type]


def configured(folder: Path, text: str) -> str:
    (folder / "config").write_text(text)
    return str(folder / "config")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("box", (None, "box", None)),
        ("ann@box", ("ann", "box", None)),
        ("ann@box:2222", ("ann", "box", 2222)),
        ("ssh://ann@box:2222", ("ann", "box", 2222)),
        ("ann@corp@box", ("ann@corp", "box", None)),
        ("[::1]:2222", (None, "::1", 2222)),
        ("root@[fe80::1]", ("root", "fe80::1", None)),
        ("::1", (None, "::1", None)),
        ("root@::1", ("root", "::1", None)),
    ],
)
def test_a_jump_is_read_as_openssh_reads_it(text: str, expected: tuple[str | None, str, int | None]) -> None:
    hop = parse_hop(text)
    assert (hop.user, hop.address, hop.port) == expected


def test_a_jump_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        parse_hop("box:port")


@needs_ssh
def test_what_is_written_in_hosts_yaml_wins_and_the_rest_is_openssh_s(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("")
    config = configured(
        tmp_path,
        "Host box\n  HostName 10.9.8.7\n  Port 2200\n  User bob\n  IdentitiesOnly yes\n"
        f"  IdentityFile {tmp_path}/%r/missing\n  UserKnownHostsFile {tmp_path}/known_%h_%p\n",
    )
    found = resolve(Target(address="box", ssh_config=config), {})
    assert (found.hostname, found.port, found.user, found.identities_only) == ("10.9.8.7", 2200, "bob", True)
    assert found.identities == ()
    assert found.known_hosts[0] == f"{tmp_path}/known_10.9.8.7_2200"
    ours = resolve(
        Target(address="box", port=22, user="root", identity_file=f"{tmp_path}/key", ssh_config=config), {}
    )
    assert (ours.port, ours.user, ours.identities) == (22, "root", (f"{tmp_path}/key",))


@needs_ssh
def test_hops_are_resolved_one_by_one_and_in_order(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        "Host target\n  HostName 10.0.0.3\n  ProxyJump bob@middle:2201,inner\n"
        "Host inner\n  HostName 10.0.0.2\n"
        "Host middle\n  HostName 10.0.0.1\n  ProxyJump outer\n"
        "Host outer\n  HostName 10.0.0.0\n",
    )
    hops = chain(Target(address="target", ssh_config=config), {})
    assert [hop.hostname for hop in hops] == ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert (hops[1].user, hops[1].port) == ("bob", 2201)


@needs_ssh
def test_a_wildcard_jump_that_meets_itself_is_refused_as_openssh_does(tmp_path: Path) -> None:
    config = configured(tmp_path, "Host *\n  ProxyJump bastion\n")
    with pytest.raises(UsageError) as caught:
        chain(Target(address="box", ssh_config=config), {})
    assert any("loop" in line for line in caught.value.details)


@needs_ssh
def test_a_loop_of_jumps_is_a_usage_error(tmp_path: Path) -> None:
    config = configured(tmp_path, "Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    with pytest.raises(UsageError):
        chain(Target(address="a", ssh_config=config), {})


@needs_ssh
@pytest.mark.parametrize("value", ["x\n  ProxyCommand touch oops", 'x" ProxyCommand "touch oops'])
def test_a_value_cannot_smuggle_in_an_option(tmp_path: Path, value: str) -> None:
    with pytest.raises(UsageError):
        resolve(Target(address="box", user=value, ssh_config=configured(tmp_path, "")), {})


@needs_ssh
def test_a_broken_ssh_configuration_is_shown(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(Target(address="box", ssh_config=configured(tmp_path, "Nonsense yes\n")), {})
    assert any("Nonsense" in line or "nonsense" in line for line in caught.value.details)


@needs_ssh
def test_the_agents_socket_is_the_configured_one(tmp_path: Path) -> None:
    environment = {"SSH_AUTH_SOCK": "/a", "OTHER": "/b"}
    for line, expected in (
        ("", "/a"),
        ("IdentityAgent none", None),
        ("IdentityAgent /c", "/c"),
        ("IdentityAgent SSH_AUTH_SOCK", "/a"),
        ("IdentityAgent $OTHER", "/b"),
    ):
        config = configured(tmp_path, f"Host *\n  {line}\n")
        found = resolve(Target(address="box", ssh_config=config), environment).agent_socket
        assert found == expected


def test_without_an_openssh_client_the_usual_defaults_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = resolve(Target(address="box"), {})
    assert (found.hostname, found.port, found.user) == ("box", 22, getpass.getuser())
    assert found.known_hosts[0] == f"{tmp_path}/.ssh/known_hosts"
    assert resolve(Target(address="box", port=1, user="u"), {}).port == 1


def test_likely_keys_are_offered_first(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.pub").write_text(f"ssh-ed25519 {base64.b64encode(name.encode()).decode()} c\n")
    named = route(identities=(f"{tmp_path}/one", f"{tmp_path}/two"))
    held = [b"zero", b"two", b"three"]
    assert list(in_order(named, held, lambda key: key)) == [b"two", f"{tmp_path}/one", b"zero", b"three"]
    only = route(identities=named.identities, identities_only=True)
    assert list(in_order(only, held, lambda key: key)) == [b"two", f"{tmp_path}/one"]


def known(folder: Path, text: str, **changes: object) -> HostKeys:
    (folder / "known_hosts").write_text(text)
    return HostKeys(route(known_hosts=(str(folder / "known_hosts"),), **changes))


KEY = base64.b64encode(b"key").decode()


def test_an_odd_file_of_known_hosts_stops_nobody(tmp_path: Path) -> None:
    odd = f"\n# comment\nlab\nlab ssh-ed25519 not!base64\n|1|x|y ssh-ed25519 {KEY}\n\x00\xff\n"
    odd += f"lab ssh-ed25519 {KEY}\n"
    known(tmp_path, odd).check("ssh-ed25519", b"key")


def test_another_port_is_another_host_but_a_key_known_without_a_port_is_taken(tmp_path: Path) -> None:
    keys = known(tmp_path, f"[lab]:2222 ssh-ed25519 {KEY}\n")
    with pytest.raises(Unreachable) as caught:
        keys.check("ssh-ed25519", b"key")
    assert "not known" in caught.value.what
    plain = known(tmp_path, f"lab ssh-ed25519 {KEY}\n", port=2222)
    plain.check("ssh-ed25519", b"key")
    with pytest.raises(Unreachable) as caught:
        plain.check("ssh-ed25519", b"other")
    assert "not known" in caught.value.what, "a different key of the same name on another port is no change"


def test_a_certificate_authority_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Unreachable) as caught:
        known(tmp_path, f"@cert-authority lab ssh-ed25519 {KEY}\n").check("ssh-ed25519", b"other")
    assert "@cert-authority" in caught.value.what


def test_the_command_to_add_a_key_cannot_run_anything_else(tmp_path: Path) -> None:
    with pytest.raises(Unreachable) as caught:
        known(tmp_path, "", hostname="lab;touch oops").check("ssh-ed25519", b"key")
    assert "'lab;touch oops'" in str(caught.value.hint)


def test_only_the_ssh_folder_imports_fabric_and_paramiko_and_only_when_used() -> None:
    package = Path(oeactl.__file__).parent
    importers = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in ("fabric", "paramiko", "invoke") for name in names):
                importers.add(path.parent.relative_to(package).as_posix())
    assert importers == {"edges/ssh"}
    program = "import sys, oeactl.edges.ssh; sys.exit('paramiko' in sys.modules or 'fabric' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
