"""What there is, as tables: hosts and recipes.

Owns: the columns. Refuses: to print.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from oeactl.core.inventory import Host, Inventory
from oeactl.core.recipe import Recipe
from oeactl.core.redact import redact


def hosts_table(inventory: Inventory, chosen: str | None) -> Any:
    """The hosts a row each; ``chosen`` (the one that commands would take) has an arrow."""
    table = _table("", "host", "address", "engine", "server", "GPUs", "groups")
    for host in inventory.hosts.values():
        groups = [name for name, members in inventory.groups.items() if host.name in members]
        table.add_row(
            "→" if host.name == chosen else "",
            host.name,
            reach(host),
            host.engine.kind,
            host.server.url if host.server else "files only",
            str(host.server.gpus) if host.server and host.server.gpus is not None else "",
            ", ".join(groups),
        )
    return table


def reach(host: Host) -> str:
    """How the host is reached, in ssh's words."""
    if host.members:
        return ", ".join(reach(one) for one in host.members)
    if host.address is None:
        return "this machine"
    user = f"{host.user}@" if host.user else ""
    port = f" port {host.port}" if host.port else ""
    jump = f" by {host.proxy_jump}" if host.proxy_jump and host.proxy_jump != "none" else ""
    return f"{user}{host.address}{port}{jump}"


def _table(*columns: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def host_document(host: Host) -> dict[str, Any]:
    """One host as plain data, the secrets of its commands and environment hidden."""
    plain: dict[str, Any] = msgspec.to_builtins(host)
    plain.pop("nodes")
    plain["members"] = [host_document(one) for one in host.members]
    if host.server is not None:
        for key in ("env", "argv", "start", "stop", "status"):
            plain["server"][key] = redact(plain["server"][key])
    return plain


def host_lines(host: Host) -> str:
    """One host whole, a line a key; keys that say nothing are left out."""

    def lines(value: Any, indent: str) -> Iterator[str]:
        for key, part in value.items():
            if isinstance(part, dict) and part:
                yield f"{indent}{key}:"
                yield from lines(part, indent + "  ")
            elif isinstance(part, list | tuple) and part:
                yield f"{indent}{key}: {' '.join(shlex.quote(str(word)) for word in part)}"
            elif part not in (None, "", (), {}):
                yield f"{indent}{key}: {f'{part:g} s' if isinstance(part, float) else part}"

    plain = host_document(host)
    members = plain.pop("members")
    if not members:
        return "\n".join([plain.pop("name"), *lines(plain, "  ")])
    shown = [f"{host.name}: one server on {len(members)} nodes"]
    for rank, one in enumerate(members):
        one.pop("members")
        shown += [f"  {one.pop('name')} (rank {rank})", *lines(one, "    ")]
    return "\n".join(shown)


def recipes_table(recipes: Iterable[Recipe]) -> Any:
    """The recipes a row each."""
    table = _table("recipe", "revision", "for", "parameters", "what it does")
    for recipe in recipes:
        document = recipe.document
        table.add_row(
            recipe.id,
            str(recipe.revision),
            f"{document.engine.package} {document.engine.versions or ''}".rstrip(),
            " ".join(f"{name}={parameter.default}" for name, parameter in document.parameters.items()),
            document.title,
        )
    return table
