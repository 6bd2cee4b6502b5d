"""Several machines that serve as one: what each tells made one, what is to be done cut into each one's part.

Paths carry the name of their node, ``n2:/opt/sglang/...``, so that one plan, one journal and one set of
proofs stand for all. Owns: that joining and cutting. Refuses: to ask anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec

from oeactl.core.host import (
    EngineFacts,
    FileWrite,
    Journal,
    Launch,
    Layer,
    NodeFacts,
    Process,
    ProofFile,
    ServerState,
    Survey,
    Transaction,
)
from oeactl.core.inventory import Host

replace = msgspec.structs.replace


def on(node: str, path: str) -> str:
    """A path with its node's name."""
    return f"{node}:{path}"


def own(node: str, path: str) -> str | None:
    """The path on ``node`` itself; None where it is another node's."""
    start = f"{node}:"
    return path[len(start) :] if path.startswith(f"{start}/") else None


# What all of them tell


def joined(surveys: Mapping[str, Survey], away: Mapping[str, str] | None = None) -> Survey:
    """One survey of all nodes, by their names in the order of ranks. away: those not reached, and why."""
    head = next(iter(surveys.values()))
    gpus = tuple(gpu for survey in surveys.values() for gpu in survey.host.gpus)
    return Survey(
        host=replace(head.host, gpus=gpus),
        engine=head.engine,
        files=tuple(
            replace(file, path=on(node, file.path))
            for node, survey in surveys.items()
            for file in survey.files
        ),
        journal=joined_journals({node: survey.journal for node, survey in surveys.items()}),
        model=head.model,
        at_rest=any(survey.at_rest for survey in surveys.values()),
        nodes=tuple(
            NodeFacts(
                name=node,
                host=survey.host,
                engine=survey.engine,
                recipes={layer.digest: layer.recipe for layer in survey.journal.layers},
            )
            for node, survey in surveys.items()
        ),
        away=dict(away or {}),
    )


def joined_journals(journals: Mapping[str, Journal]) -> Journal:
    """One record: a layer that several nodes have is one, with the edits of each node's files."""
    every = tuple(journals.values())
    layers: dict[tuple[str, str], Layer] = {}
    for node, journal in journals.items():
        for layer in journal.layers:
            known = layers.get((layer.recipe, layer.digest))
            edits = {on(node, path): made for path, made in layer.edits.items()}
            edits = {**(known.edits if known else {}), **edits}
            layers[layer.recipe, layer.digest] = replace(known or layer, edits=edits)
    recovered = [f"{node}: {one.recovered}" for node, one in journals.items() if one.recovered]
    return Journal(
        root=every[0].root,
        layers=tuple(layers.values()),
        files=tuple(
            replace(record, path=on(node, record.path))
            for node, journal in journals.items()
            for record in journal.files
        ),
        pending=next((one.pending for one in every if one.pending is not None), None),
        lease=next((one.lease for one in every if one.lease is not None), None),
        recovered="; ".join(recovered) or None,
        gone=tuple(dict.fromkeys(name for one in every for name in one.gone)),
    )


def joined_states(states: Mapping[str, ServerState]) -> ServerState:
    """The state of the whole: it is asked where the first node is, and lives as long as all do."""
    (first, head), *others = states.items()
    state = _named(first, head)
    rest = [_named(node, one) for node, one in others]
    every = [state, *rest]
    stranger = next((one.listener for one in every if one.foreign and one.listener), None)
    workers = [worker for one in every for worker in one.workers]
    lost = [process for one in every for process in one.lost]
    if state.recorded is None:
        known = {worker.key for worker in workers}
        workers += [one.recorded for one in rest if one.recorded and one.recorded.key not in known]
    else:
        away = [node for (node, _), one in zip(others, rest, strict=True) if not (one.recorded or one.lost)]
        lost += [Process(pid=0, start_ticks=0, boot_id="", role="its part", node=node) for node in away]
    errors = [f"{node}: {one.last_error}" for node, one in states.items() if one.last_error]
    return replace(
        state,
        listener=stranger if state.recorded and stranger else state.listener,
        foreign=any(one.foreign for one in every),
        workers=tuple(workers),
        lost=tuple(lost),
        last_error="; ".join(errors) or None,
    )


def _named(node: str, state: ServerState) -> ServerState:
    there = partial(replace, node=node)
    return replace(
        state,
        recorded=there(state.recorded) if state.recorded else None,
        listener=there(state.listener) if state.listener else None,
        workers=tuple(map(there, state.workers)),
        lost=tuple(map(there, state.lost)),
    )


def joined_proofs(proofs: Mapping[str, Iterable[ProofFile]]) -> tuple[ProofFile, ...]:
    """All proofs, each with its node and its file as the plan names it."""
    return tuple(
        replace(proof, node=node, file=on(node, proof.file))
        for node, shown in proofs.items()
        for proof in shown
    )


def uneven(survey: Survey) -> str | None:
    """What the nodes differ in, where they must not; None where all is alike."""
    engines = {node.name: _release(node.engine) for node in survey.nodes}
    if len(set(engines.values())) > 1:
        return f"the nodes run different engines: {_each(engines)}"
    recipes = {node.name: ", ".join(node.recipes.values()) or "none" for node in survey.nodes}
    if len({frozenset(node.recipes) for node in survey.nodes}) > 1:
        alike = len(set(recipes.values())) == 1
        return f"the nodes carry different {'settings of recipes' if alike else 'recipes'}: {_each(recipes)}"
    return None


def _release(engine: EngineFacts) -> str:
    return f"{engine.package} {engine.version or '(no version)'}"


def _each(facts: Mapping[str, str]) -> str:
    return "; ".join(f"{node}: {fact}" for node, fact in facts.items())


# What each of them does


def part(transaction: Transaction, node: str, *, root: str, host: Host) -> Transaction:
    """What ``transaction`` is on one node, which has its engine at ``root``."""
    files = tuple(
        replace(file, path=path) for file in transaction.files if (path := own(node, file.path)) is not None
    )
    probe = transaction.probe
    if probe is not None and host.server is not None:
        probe = replace(probe, cwd=host.server.cwd, env=dict(host.server.env))
    layers = (_part(layer, node) for layer in transaction.layers)
    return replace(
        transaction,
        root=root,
        state_dir=host.state_dir,
        files=files,
        layers=tuple(layer for layer in layers if layer is not None),
        probe=probe if files else None,
    )


def _part(layer: Layer, node: str) -> Layer | None:
    """The layer with the edits of this node's files; None where it changes only other nodes'."""
    edits = {path: made for full, made in layer.edits.items() if (path := own(node, full)) is not None}
    return replace(layer, edits=edits) if edits or not layer.edits else None


def inverse(made: Transaction, before: Survey) -> Transaction:
    """What takes a node's part back to what ``before`` showed, its lease included.

    Raises ValueError where it lacks the bytes.
    """
    known = {file.path: file.data or b"" for file in before.files if file.data is not None or file.missing}
    held = before.journal.lease
    absent = [file.path for file in made.files if file.path not in known]
    if absent:
        raise ValueError(f"the survey holds no bytes of {', '.join(absent)}")
    return replace(
        made,
        kind="rollback",
        files=tuple(
            FileWrite(
                module=file.module,
                path=file.path,
                before_sha256=file.after_sha256,
                after=known[file.path],
                after_sha256=file.before_sha256,
                pristine_sha256=file.pristine_sha256,
            )
            for file in made.files
        ),
        layers=before.journal.layers,
        lease_s=made.lease_s if held is not None and held.operation == made.operation else None,
        probe=None,
    )


def launch_on(member: Host, head: Host, launch: Launch) -> Launch:
    """The launch of one node: its own entry's, with what was added to the first node's."""
    assert member.server is not None and head.server is not None
    added = launch.argv[len(head.server.argv) :]
    env = {name: value for name, value in launch.env.items() if head.server.env.get(name) != value}
    return Launch(
        python=member.engine.python or "python3",
        argv=(*member.server.argv, *added),
        cwd=member.server.cwd or "/",
        env={**member.server.env, **env},
        log=member.server.log,
        url=member.server.url,
    )
