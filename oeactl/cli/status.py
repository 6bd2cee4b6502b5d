"""``oeactl status``."""

from __future__ import annotations

from oeactl.cli.common import Call, HostOption, command


@command("oeactl status --host 10.1.230.174", "oeactl status --json")
def status(call: Call, host: HostOption = None) -> int:
    """Tell what is on disk, what is loaded, what is taken, and whether the server is well.

    Exit 0 when disk, journal and live agree (a pristine host whose server is down is well too), else 7 with
    what to do.
    """
    from oeactl.cli.wiring import wired
    from oeactl.flows.status import status as run
    from oeactl.render.status import status_document, status_lines

    with wired(call, call.host(host)) as here:
        found = run(here.site)
    call.emit(status_document(found), lambda: status_lines(found))
    return 0 if found.agrees else 7
