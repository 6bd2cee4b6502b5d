"""adopt: the hosts.yaml entry of a server that runs already, that a script begins, or of a container.

The story: look at the process or the container, or read the script; make the entry of it; look whether its
interpreter finds an engine; show what was learned, chosen and left out. Runs nothing of the server, and stops
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from oeactl.core.adoption import Adopted, adopt_process
from oeactl.core.container_adoption import adopt_container
from oeactl.core.host import SurveyRequest
from oeactl.core.inventory import Host
from oeactl.core.launch_script import adopt_script
from oeactl.errors import OeactlError
from oeactl.ports import Files, Machine, Progress


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which server: by the port it listens on, by its pid, by the script on the host that begins it, by the
    container it is in, or by a compose file (and the service in it).

    keep: names of further variables of a process to take over.
    """

    port: int | None = None
    pid: int | None = None
    script: str | None = None
    container: str | None = None
    compose: str | None = None
    service: str | None = None
    keep: tuple[str, ...] = ()


def adopt(
    host: Host, machine: Machine, files: Callable[[Adopted], Files], wanted: Wanted, progress: Progress
) -> Adopted:
    """Learn an entry. files: where its engine's files would be.

    Raises UsageError where there is no such server, Refused where it may not be seen.
    """
    if wanted.container is not None or wanted.compose is not None:
        progress.step("looking at the container")
        place = machine.container(name=wanted.container, file=wanted.compose, service=wanted.service)
        adopted = adopt_container(place)
        if not place.running:
            why = "the engine: the container does not run, so its files were not seen"
            return msgspec.structs.replace(adopted, unknown=(*adopted.unknown, why))
    elif wanted.script is not None:
        progress.step(f"reading {wanted.script}")
        adopted = adopt_script(machine.read_text(wanted.script), wanted.script)
    else:
        progress.step("looking at the server")
        found = machine.running(port=wanted.port, pid=wanted.pid)
        adopted = adopt_process(found, keep=wanted.keep)
    progress.step("looking for its engine")
    return _with_engine(host, files(adopted), adopted)


def _with_engine(host: Host, files: Files, adopted: Adopted) -> Adopted:
    """What its interpreter would import, in its folder and environment."""
    server = adopted.entry["server"]
    request = SurveyRequest(
        package=host.engine.kind,
        modules=(),
        python=adopted.entry["engine"]["python"],
        root=None,
        cwd=server.get("cwd"),
        env={name: value for name, value in server.get("env", {}).items() if "${" not in value},
        state_dir=host.state_dir,
        model=adopted.model,
        data=False,
    )
    try:
        survey = files.survey(request)
    except OeactlError as error:
        return msgspec.structs.replace(adopted, unknown=(*adopted.unknown, f"the engine: {error.what}"))
    engine, model = survey.engine, survey.model
    path = model.path if model and model.config is not None else adopted.model
    version = engine.version or "(no version)"
    return msgspec.structs.replace(adopted, engine=f"{engine.package} {version} in {engine.root}", model=path)
