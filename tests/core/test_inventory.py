"""hosts.yaml: the shipped example is whole, every mistake has its line, the host meant is chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from oeactl.core.hosts_file import read_inventory
from oeactl.core.inventory import (
    LOCAL,
    BenchSpec,
    EngineSpec,
    Host,
    Inventory,
    ServerSpec,
    at_home,
    empty_inventory,
    needs_home,
    pick_host,
    pick_hosts,
)
from oeactl.errors import UsageError

SERVER = "server: {argv: [-m, x], log: /l}"
ENGINE = "engine: {python: /usr/bin/python3}"


def read(text: str, **variables: str) -> Inventory:
    return read_inventory(text, "hosts.yaml", folder=Path("/project"), home="/home/me", variables=variables)


def test_the_whole_schema_becomes_values() -> None:
    inventory = read(
        """
default_host: box
defaults:
  user: root
  engine: {kind: sglang}
  bench: {concurrency: [1, 2], seed: 7}
  server: {stop_timeout: 90s}
groups: {lab: [box]}
hosts:
  box:
    address: 10.0.0.7
    port: 2222
    identity_file: ~/.ssh/id
    proxy_jump: gate
    ssh_config: conf/ssh
    become: sudo
    state_dir: /var/lib/x
    engine: {python: "${VENV}/bin/python", root: /src/python}
    server:
      manager: process
      url: http://127.0.0.1:31000
      gpus: 8
      cwd: /root
      env: {A: "${VENV}/lib", B: plain}
      argv: [-m, sglang.launch_server, --port, "31000"]
      log: /var/log/x.log
      api_key_env: MY_KEY
      ready_timeout: 30m
    bench: {input_len: 64}
""",
        VENV="/opt/v",
    )
    assert inventory.default_host == "box"
    assert inventory.groups == {"lab": ("box",)}
    assert inventory.hosts["box"] == Host(
        name="box",
        address="10.0.0.7",
        port=2222,
        user="root",
        identity_file="/home/me/.ssh/id",
        proxy_jump="gate",
        ssh_config="/project/conf/ssh",
        become="sudo",
        state_dir="/var/lib/x",
        engine=EngineSpec(python="/opt/v/bin/python", root="/src/python"),
        server=ServerSpec(
            url="http://127.0.0.1:31000",
            gpus=8,
            cwd="/root",
            env={"A": "/opt/v/lib", "B": "plain"},
            argv=("-m", "sglang.launch_server", "--port", "31000"),
            log="/var/log/x.log",
            api_key_env="MY_KEY",
            ready_timeout_s=1800.0,
            stop_timeout_s=90.0,
        ),
        bench=BenchSpec(concurrency=(1, 2), input_len=64, seed=7),
    )
    server = inventory.hosts["box"].server
    assert server is not None
    assert server.port == 31000


def test_the_key_of_an_entry_is_its_address_unless_another_is_given() -> None:
    inventory = read('hosts: {10.1.230.174: , "::1": {port: 22}, box: {address: h}}')
    assert [(host.name, host.address) for host in inventory.hosts.values()] == [
        ("10.1.230.174", "10.1.230.174"),
        ("::1", "::1"),
        ("box", "h"),
    ]


def test_defaults_of_a_server_make_no_server() -> None:
    inventory = read(f"defaults: {{server: {{gpus: 4}}}}\nhosts:\n  a: {{}}\n  b: {{{ENGINE}, {SERVER}}}")
    assert inventory.hosts["a"].server is None
    assert inventory.hosts["b"].server is not None
    assert inventory.hosts["b"].server.gpus == 4


def test_local_is_there_without_an_entry_and_takes_the_defaults_that_fit_it() -> None:
    inventory = read("defaults: {user: root, engine: {root: /src}}\nhosts: {a: {}}")
    assert inventory.local == Host(name=LOCAL, engine=EngineSpec(root="/src"))
    assert LOCAL not in inventory.hosts
    assert pick_host(inventory, LOCAL, None).server is None


def test_local_can_have_an_entry() -> None:
    inventory = read(f'hosts: {{"@local": {{engine: {{python: ~/v/bin/python}}, {SERVER}}}}}')
    assert inventory.local is inventory.hosts[LOCAL]
    assert inventory.local.engine.python == "/home/me/v/bin/python"
    assert inventory.local.address is None
    assert not needs_home(inventory.local)


def test_home_of_another_host_is_left_to_that_host() -> None:
    host = read(
        "hosts: {a: {state_dir: ~/s, engine: {python: ~/v/python, root: ~/r},"
        " server: {argv: [-m, x], log: ~/l, cwd: ~/c, env: {E: ~/e, F: f~/}}}}"
    ).hosts["a"]
    assert needs_home(host)
    settled = at_home(host, "/root/")
    assert not needs_home(settled)
    assert settled.engine == EngineSpec(python="/root/v/python", root="/root/r")
    assert settled.state_dir == "/root/s"
    assert settled.server is not None
    assert (settled.server.log, settled.server.cwd) == ("/root/l", "/root/c")
    assert settled.server.env == {"E": "/root/e", "F": "f~/"}


def test_commands_have_their_own_keys() -> None:
    server = read(
        "hosts: {a: {server: {manager: commands, start: [systemctl, start, x], stop: [systemctl, stop, x],"
        " status: [systemctl, is-active, x]}}}"
    ).hosts["a"]
    assert server.server is not None
    assert server.server.start == ("systemctl", "start", "x")
    assert server.server.status == ("systemctl", "is-active", "x")


@pytest.mark.parametrize(
    ("text", "line", "what", "hint"),
    [
        ("- a\n", 1, "the document must be a mapping", "default_host"),
        ("host: {}\n", 1, "unknown key 'host' in the document", "did you mean 'hosts'?"),
        ("hosts: 3\n", 1, "'hosts' must be a mapping", None),
        ("hosts:\n  a: 3\n", 2, "'hosts.a' must be a mapping", None),
        ("hosts:\n  a:\n    adress: x\n", 3, "unknown key 'adress' in hosts.a", "did you mean 'address'?"),
        ("hosts:\n  a:\n    name: x\n", 3, "unknown key 'name' in hosts.a", None),
        (
            "hosts:\n  a:\n    port: ssh\n",
            3,
            "'hosts.a.port' must be an integer from 1 to 65535, not 'ssh'",
            None,
        ),
        ("hosts:\n  a:\n    user: 'x -o y'\n", 3, "'hosts.a.user' cannot be 'x -o y'", None),
        ("hosts:\n  a:\n    address: -oProxyCommand=x\n", 3, "'hosts.a.address' cannot be", None),
        ("hosts:\n  '-x': {}\n", 2, "'-x' cannot be a host's name", None),
        ("hosts:\n  '@remote': {}\n", 2, "'@remote' cannot be a host's name", "'@local' is reserved"),
        ("hosts:\n  '@local':\n    port: 22\n", 3, "'port' says nothing of @local", None),
        ("hosts:\n  a: {}\n  a: {}\n", 3, "key 'a' is given twice", None),
        ("hosts:\n  a:\n    become: root\n", 3, "'hosts.a.become' must be 'sudo', not 'root'", None),
        ("hosts:\n  a:\n    engine: {kind: vllm}\n", 3, "'hosts.a.engine.kind' must be 'sglang'", None),
        ("hosts:\n  a:\n    engine:\n      pyhton: /x\n", 4, "unknown key 'pyhton'", "'python'"),
        ("hosts:\n  a:\n    engine: {python: python3}\n", 3, "must be an absolute path on the host", None),
        ("hosts:\n  a:\n    engine: {root: $HOME/x}\n", 3, "must be an absolute path on the host", None),
        ("hosts:\n  a:\n    state_dir: ${NOWHERE}/x\n", 3, "the variable 'NOWHERE' is not set", "export"),
        ("hosts:\n  a:\n    bench: {concurrency: [0]}\n", 3, "concurrency[0]' must be an integer >= 1", None),
        ("hosts:\n  a:\n    bench: {concurrency: [2, 2]}\n", 3, "a list of levels, each once", None),
        ("hosts:\n  a:\n    bench: {concurrency: []}\n", 3, "a list of levels, each once", None),
        ("default_host: b\nhosts: {a: {}}\n", 1, "default_host 'b' is not under hosts", "hosts: a"),
        ("groups:\n  g:\n    - a\n    - b\nhosts: {a: {}}\n", 4, "names an unknown host 'b'", "hosts: a"),
        ("groups:\n  a: []\nhosts: {a: {}}\n", 2, "'a' is a host and a group", None),
        ("defaults:\n  adress: x\n", 2, "unknown key 'adress' in defaults", "'address'"),
        ("defaults:\n  address: x\n", 2, "'address' belongs to one host", None),
        ("defaults:\n  engine:\n    pyton: /x\n", 3, "unknown key 'pyton' in defaults.engine", "'python'"),
        ("defaults:\n  server: {gpus: -1}\n", 2, "'defaults.server.gpus' must be an integer >= 0", None),
    ],
)
def test_a_mistake_has_its_line_and_its_remedy(text: str, line: int, what: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert what in caught.value.what
    assert caught.value.where == f"hosts.yaml:{line}"
    assert (hint or "") in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("server", "what", "hint"),
    [
        ("manager: docker", "lacks 'container', which manager 'docker' needs", None),
        ("manager: compose", "lacks 'compose', which manager 'compose' needs", None),
        ("manager: systemd", "lacks 'unit', which manager 'systemd' needs", None),
        ("manager: dokcer", "'hosts.a.server.manager' must be 'process' or 'commands'", None),
        ("{}", "'hosts.a.server' lacks 'argv'", None),
        ("argv: [-m, x]", "'hosts.a.server' lacks 'log'", None),
        ("{argv: [-m, x], log: log}", "'hosts.a.server.log' must be an absolute path", None),
        ("{argv: [/v/bin/python3.11, -m, x], log: /l}", "begins with the interpreter", "begin with -m"),
        ("{argv: [-m, 8], log: /l}", "'hosts.a.server.argv[1]' must be a string, not 8", "in quotes"),
        ("{argv: [-m, x], log: /l, env: {A: 1}}", "'hosts.a.server.env.A' must be a string", "in quotes"),
        ("{argv: [-m, x], log: /l, env: {A-B: x}}", "a name that no variable can have: 'A-B'", None),
        ("{argv: [-m, x], log: /l, url: 127.0.0.1:3}", "must be like http://127.0.0.1:30000", None),
        ("{argv: [-m, x], log: /l, url: 'http://h:x'}", "must be like http://127.0.0.1:30000", None),
        ("{argv: [-m, x, --port, '31'], log: /l}", "says port 30000, and argv --port 31", None),
        ("{argv: [-m, x, --port=31], log: /l}", "says port 30000, and argv --port 31", None),
        ("{argv: [-m, x], log: /l, start: [x]}", "'hosts.a.server.start' is not of manager 'process'", None),
        ("{manager: commands, start: [x]}", "lacks 'stop', which manager 'commands' needs", None),
        ("{manager: commands, start: [x], stop: [x], argv: [x]}", "is not of manager 'commands'", None),
        ("{argv: [-m, x], log: /l, ready_timeout: soon}", "must be a duration such as 90s", None),
    ],
)
def test_a_wrong_server_is_named(server: str, what: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        read(f"hosts:\n  a:\n    {ENGINE}\n    server: {server if ': ' not in server else braced(server)}\n")
    assert what in caught.value.what
    assert caught.value.where == "hosts.yaml:4"
    assert (hint or "") in (caught.value.hint or "")


def braced(text: str) -> str:
    return text if text.startswith("{") else f"{{{text}}}"


def test_a_process_needs_an_interpreter() -> None:
    with pytest.raises(UsageError, match="has no interpreter"):
        read(f"hosts: {{a: {{{SERVER}}}}}")


def test_a_key_written_where_a_name_belongs_is_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        read(f"hosts: {{a: {{{ENGINE}, server: {{argv: [x], log: /l, api_key_env: sk-very-secret}}}}}}")
    assert "secret" not in f"{caught.value.what}{caught.value.hint}{caught.value.details}"


TWO = "hosts: {alpha: {address: 10.0.0.1}, beta: {address: 10.0.0.2, port: 1}, gamma: {address: 10.0.0.2}}"


@pytest.mark.parametrize(
    ("text", "wanted", "preferred", "chosen"),
    [
        (TWO, "beta", "alpha", "beta"),
        (TWO, "10.0.0.1", None, "alpha"),
        (TWO, None, "alpha", "alpha"),
        (f"{TWO}\ndefault_host: gamma", None, None, "gamma"),
        (f"{TWO}\ndefault_host: gamma", None, "beta", "beta"),
        (f"{TWO}\ndefault_host: gamma", "@local", None, "@local"),
        ("hosts: {only: {}}", None, None, "only"),
        ("hosts: {only: {}}", None, "", "only"),
        ("default_host: '@local'", None, None, "@local"),
    ],
)
def test_the_host_meant_is_chosen(text: str, wanted: str | None, preferred: str | None, chosen: str) -> None:
    assert pick_host(read(text), wanted, preferred).name == chosen


@pytest.mark.parametrize(
    ("text", "wanted", "preferred", "what", "hint"),
    [
        (TWO, None, None, "no host is named", "--host NAME; hosts: alpha, beta, gamma, @local"),
        (TWO, "alhpa", None, "unknown host 'alhpa'", "did you mean 'alpha'?"),
        (TWO, None, "nowhere", "unknown host 'nowhere' (from OEACTL_HOST)", "hosts: alpha, beta"),
        (TWO, "10.0.0.2", None, "several hosts have the address", "--host beta"),
        (f"{TWO}\ngroups: {{lab: [beta]}}", "lab", None, "'lab' is a group", "--host beta"),
        ("hosts: {}", None, None, "no host is named", "hosts: @local"),
    ],
)
def test_when_no_host_is_meant_the_names_are_listed(
    text: str, wanted: str | None, preferred: str | None, what: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        pick_host(read(text), wanted, preferred)
    assert what in caught.value.what
    assert hint in (caught.value.hint or "")


def test_without_a_file_there_is_this_machine() -> None:
    assert pick_host(empty_inventory("no hosts.yaml"), LOCAL, None) == Host(name=LOCAL)


# --- several hosts -----------------------------------------------------------------------------------------

SEVERAL = """
default_host: a
groups: {lab: [a, b], none: []}
hosts:
  a: {address: 10.0.0.1}
  b: {}
  c: {}
"""


@pytest.mark.parametrize(
    ("words", "names", "several"),
    [
        ("b", ["b"], False),
        ("10.0.0.1", ["a"], False),
        ("b,a", ["b", "a"], True),
        ("b, c", ["b", "c"], True),
        ("lab", ["a", "b"], True),
        ("c,lab,a,10.0.0.1", ["c", "a", "b"], True),
        ("b,@local", ["b", "@local"], True),
        ("b,b", ["b"], True),
        (None, ["a"], False),
    ],
)
def test_lists_and_groups_name_several_hosts_each_once(
    words: str | None, names: list[str], several: bool
) -> None:
    picked = pick_hosts(read(SEVERAL), words, None)
    assert [host.name for host in picked.hosts] == names
    assert picked.several == several
    assert pick_hosts(read(SEVERAL), None, words).hosts == picked.hosts


@pytest.mark.parametrize(
    ("words", "what"), [("a,,b", "empty name"), ("a,d", "unknown host 'd'"), ("none", "has no hosts")]
)
def test_a_wrong_name_among_several_is_said(words: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        pick_hosts(read(SEVERAL), words, None)
    assert what in caught.value.what


@pytest.mark.parametrize("words", ["lab", "a,b"])
def test_a_command_for_one_host_says_so(words: str) -> None:
    with pytest.raises(UsageError) as caught:
        pick_host(read(SEVERAL), words, None)
    assert "works on one" in caught.value.what
    assert caught.value.hint == "--host a"
