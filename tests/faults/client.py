"""An oeactl that is killed: one command over ssh, which stops at a step until it is dead or let go on."""

from __future__ import annotations

import sys
from pathlib import Path

from oeactl.edges.config import read_recipe
from oeactl.edges.ssh import open_ssh
from oeactl.errors import OeactlError
from tests.faults.ground import HOST, Subject
from tests.support.fleet import Fleet


def main() -> int:
    place, kind, step, ssh, port = sys.argv[1:]
    folder = Path(place)
    subject = Subject(fleet=Fleet(folder=folder, hosts=(HOST,)), recipe=read_recipe(folder, "note"))
    remote = open_ssh(
        name="lab",
        address="127.0.0.1",
        port=int(port),
        ssh_config=f"{ssh}/ssh_config",
        environment={},
    )
    fault = {"at": int(step), "do": "pause", "gate": str(folder / "gate")}
    with subject.operator(remote, fault=fault) as operator:
        try:
            operator.carry_out("patch" if kind == "patch" else "revert")
        except OeactlError as error:
            return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
