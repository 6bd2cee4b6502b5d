"""``nodes`` of a host's entry: each machine's keys over the host's, and the flags that make them one server.

Owns: the merge, the names, the ranks, and what only the list as a whole can be wrong about. Refuses: what an
entry by itself may say (``hosts_file`` reads each).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oeactl.core.document import Node, build, member, merged, where
from oeactl.core.inventory import Host, NodeEntry
from oeactl.errors import UsageError

RANK_FLAGS = ("--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr")
MEETING_PORT = 20000


def member_nodes(node: Node, at: str) -> tuple[tuple[str, Node], ...]:
    """(name, entry) of each machine, the host's keys below its own. Raises UsageError."""
    listed = member(node, "nodes")
    if listed is None or not listed.value:
        return ()
    if not isinstance(listed.value, list):
        raise UsageError(f"'{at}.nodes' must be a list", where=listed.where)
    if "address" in node.value:
        raise UsageError(
            f"'{at}.address' says nothing where there are nodes",
            where=where(node, "address"),
            hint="each node has its own",
        )
    base = Node(value={key: value for key, value in node.value.items() if key != "nodes"}, where=node.where)
    found: dict[str, Node] = {}
    for number, one in enumerate(listed.value):
        place = f"{at}.nodes[{number}]"
        entry = build(one, NodeEntry, place)
        name = entry.name or entry.address
        if name is None or entry.address is None:
            raise UsageError(f"'{place}' lacks 'address'", where=one.where)
        if name in found or "/" in name:
            what = f"'{place}' is called '{name}'" + (", as another is" if name in found else "")
            raise UsageError(what, where=one.where, hint="give each node a 'name' of its own")
        own = Node(value={key: value for key, value in one.value.items() if key != "name"}, where=one.where)
        found[name] = merged(base, own)
    return tuple(found.items())


def ranked(members: Sequence[Host], node: Node, at: str) -> tuple[Host, ...]:
    """The members with what makes them one server at the end of each one's argv. Raises UsageError."""
    _distinct(members, node, at)
    made = []
    for rank, one in enumerate(members):
        server = one.server
        if server is None:
            made.append(one)
            continue
        if server.manager != "process":
            raise UsageError(
                f"'{at}.server.manager' is '{server.manager}', and a server over several nodes is a process",
                where=where(node, "server", "manager"),
                hint="manager: process",
            )
        taken = next((word for word in server.argv if word.partition("=")[0] in RANK_FLAGS), None)
        if taken is not None:
            raise UsageError(
                f"'{at}.server.argv' has {taken}, which comes from 'nodes'",
                where=where(node, "server", "argv"),
                hint="take it out; server.dist_init_addr says where the nodes meet",
            )
        meeting = server.dist_init_addr or f"{_host_of(members[0])}:{MEETING_PORT}"
        flags = ("--nnodes", str(len(members)), "--node-rank", str(rank), "--dist-init-addr", meeting)
        changed = msgspec.structs.replace(server, argv=(*server.argv, *flags))
        made.append(msgspec.structs.replace(one, server=changed))
    return tuple(made)


def _host_of(head: Host) -> str:
    address = head.address or head.node
    return f"[{address}]" if ":" in address else address


def _distinct(members: Sequence[Host], node: Node, at: str) -> None:
    """Two entries for one machine's engine would be two commands that undo each other."""
    seen: dict[tuple[object, ...], str] = {}
    for one in members:
        place = (one.address, one.port, one.engine.root, one.engine.python, one.state_dir)
        if place in seen:
            raise UsageError(
                f"nodes '{seen[place]}' and '{one.node}' of '{at}' are the same", where=where(node, "nodes")
            )
        seen[place] = one.node
