"""``oeactl hosts``."""

from __future__ import annotations

from oeactl.cli.common import HOST_VARIABLE, Call, HostArgument, command


@command("oeactl hosts", "oeactl hosts 10.1.230.174 --json")
def hosts(call: Call, name: HostArgument = None) -> None:
    """List the hosts of hosts.yaml, or show one.

    The arrow is at the host that a command takes when none is named. One host is shown whole: defaults
    merged in, ~ and ${VAR} expanded. Contacts none of them.

    \b
    A hosts.yaml to begin with:
      hosts:
        10.1.230.174:
          user: root
          engine: {python: /root/venv/bin/python}
    """
    import os

    from oeactl.core.inventory import pick_host
    from oeactl.errors import UsageError
    from oeactl.render.listing import host_document, host_lines, hosts_table

    if name is not None:
        host = call.host(name)
        call.emit(host_document(host), lambda: host_lines(host))
        return
    inventory = call.project.inventory
    try:
        chosen = pick_host(inventory, None, os.environ.get(HOST_VARIABLE)).name
    except UsageError:
        chosen = None
    call.emit(
        {
            "chosen": chosen,
            "groups": inventory.groups,
            "hosts": list(map(host_document, inventory.hosts.values())),
        },
        lambda: hosts_table(inventory, chosen),
    )
