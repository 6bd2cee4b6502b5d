"""A name that moved makes models vanish in silence: the probe hears it. What is old is no reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from oeactl.core.host import FileWrite
from oeactl.errors import Refused
from tests.support.engine_tree import ATTENTION, ROUTER, Tree, sha256

REGISTRY = "sglang.srt.models.registry"
GATHERS = b"""\
import importlib, logging, pkgutil
import sglang.srt.models as package
FOUND = []
for _, name, _ in pkgutil.iter_modules(package.__path__, "sglang.srt.models."):
    if name != __name__:
        try:
            FOUND.append(importlib.import_module(name))
        except Exception as error:
            logging.warning("Ignore import error when loading %s: %s", name, error)
"""
MODELS = {
    "__init__": b"",
    "registry": GATHERS,
    "one": b"from sglang.srt.layers.moe.topk import route\n",
    "two": b"import no_such_kernel_here\n",
}


@pytest.fixture
def models(tree: Tree) -> Tree:
    folder = tree.site / "sglang" / "srt" / "models"
    folder.mkdir()
    for name, text in MODELS.items():
        (folder / f"{name}.py").write_bytes(text)
    return tree


def change(tree: Tree, module: str, after: bytes, **probe: Any) -> None:
    """Make the module hold ``after``, probed."""
    before = tree.path(module).read_bytes()
    write = FileWrite(
        module=module,
        path=str(tree.path(module)),
        before_sha256=sha256(before),
        after=after,
        after_sha256=sha256(after),
        pristine_sha256=sha256(before),
    )
    wanted = tree.probe(**{"modules": (module,), "gatherers": (REGISTRY,), **probe})
    transaction = tree.transaction(contents={module: after}, probe=wanted)
    tree.files.write(msgspec.structs.replace(transaction, files=(write,)))


def test_a_moved_name_that_makes_a_model_vanish_is_refused(models: Tree) -> None:
    before = models.path(ROUTER).read_bytes()
    with pytest.raises(Refused) as caught:
        change(models, ROUTER, b"def route_tokens():\n    return 'few'\n")
    assert caught.value.what == "the changed engine swallows an import error"
    (line,) = caught.value.details
    assert "sglang.srt.models.one: cannot import name 'route'" in line, "and not the kernel that never was"
    assert models.path(ROUTER).read_bytes() == before and not models.state.exists()


def test_what_was_swallowed_before_is_no_reason(models: Tree) -> None:
    change(models, ROUTER, b"def route():\n    return 'few'\n")
    assert b"few" in models.path(ROUTER).read_bytes()


def test_an_engine_without_a_registry_is_probed_without(tree: Tree) -> None:
    change(tree, ROUTER, b"def route():\n    return 'few'\n")
    with pytest.raises(Refused, match=f"does not import: {ATTENTION}"):
        change(tree, ROUTER, b"def other():\n    pass\n", modules=(ROUTER, ATTENTION))


@pytest.mark.parametrize("broken", [b"import no_such_kernel_here\n", b"import os\nos._exit(3)\n"])
def test_a_module_that_did_not_import_before_either_is_not_judged(tree: Tree, broken: bytes) -> None:
    tree.path(ATTENTION).write_bytes(broken)
    change(tree, ATTENTION, broken + b"MODE = 'aware'\n")
    assert b"aware" in tree.path(ATTENTION).read_bytes()


def test_a_module_that_now_ends_the_process_is_refused(tree: Tree) -> None:
    with pytest.raises(Refused, match="exit code 3"):
        change(tree, ATTENTION, b"import os\nos._exit(3)\n")
