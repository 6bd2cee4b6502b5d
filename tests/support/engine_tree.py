"""A small package named like the engine, as an interpreter's site folder holds it, and transactions on it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oeactl.core.host import Edit, FileWrite, Holder, Layer, Probe, SurveyRequest, Transaction
from oeactl.edges.agent_link import AgentLink
from oeactl.edges.files import AgentFiles
from oeactl.edges.local import open_local
from oeactl.ports import Remote

ROUTER = "sglang.srt.layers.moe.topk"
ATTENTION = "sglang.srt.layers.radix_attention"
HOLDER = Holder(user="ann", host="laptop", pid=1)
FILES = {
    "sglang/__init__.py": b"",
    "sglang/version.py": b'__version__ = "0.0.1"\n',
    "sglang/srt/__init__.py": b"",
    "sglang/srt/layers/__init__.py": b"",
    "sglang/srt/layers/moe/__init__.py": b"",
    "sglang/srt/layers/moe/topk.py": b"def route():\n    return 'all'\n",
    "sglang/srt/layers/radix_attention.py": b"from sglang.srt.layers.moe.topk import route\nMODE = 'plain'\n",
}
PATCHED = {
    ROUTER: b"def route():\n    return 'few'\n",
    ATTENTION: b"from sglang.srt.layers.moe.topk import route\nMODE = 'aware'\n",
}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Tree:
    """The site folder, the state folder, and an agent that works on them."""

    site: Path
    state: Path
    python: str
    link: AgentLink

    @property
    def files(self) -> AgentFiles:
        return AgentFiles(self.link)

    @property
    def root(self) -> str:
        return str(self.site / "sglang")

    def path(self, module: str) -> Path:
        return self.site / (module.replace(".", "/") + ".py")

    def request(self, **changes: Any) -> SurveyRequest:
        fields: dict[str, Any] = {
            "package": "sglang",
            "modules": (ROUTER, ATTENTION),
            "python": self.python,
            "root": None,
            "cwd": None,
            "env": {"PYTHONPATH": str(self.site)},
            "state_dir": str(self.state),
        }
        return SurveyRequest(**{**fields, **changes})

    def transaction(
        self, kind: Any = "patch", contents: dict[str, bytes] | None = None, **changes: Any
    ) -> Transaction:
        """A patch to PATCHED, or back to FILES, planned on what the files hold now."""
        if contents is None:
            contents = PATCHED if kind == "patch" else {module: original(module) for module in PATCHED}
        writes = tuple(
            FileWrite(
                module=module,
                path=str(self.path(module).resolve()),
                before_sha256=sha256(self.path(module).read_bytes()),
                after=after,
                after_sha256=sha256(after),
                pristine_sha256=sha256(original(module)),
            )
            for module, after in contents.items()
        )
        fields: dict[str, Any] = {
            "operation": f"{kind}-1",
            "kind": kind,
            "root": self.root,
            "state_dir": str(self.state),
            "files": writes,
            "layers": (layer(self, contents),) if kind == "patch" else (),
            "holder": HOLDER,
            "what": f"{kind} of oea",
        }
        return Transaction(**{**fields, **changes})

    def probe(self, **changes: Any) -> Probe:
        fields: dict[str, Any] = {
            "modules": (ROUTER, ATTENTION),
            "cwd": None,
            "env": {"PYTHONPATH": str(self.site)},
            "timeout_s": 60.0,
        }
        return Probe(**{**fields, **changes})

    def beside(self) -> Tree:
        """The same tree through an agent of its own, which can be asked at the same time."""
        return replace(self, link=AgentLink(open_local(), python=self.python))

    def contents(self) -> dict[str, bytes]:
        return {module: self.path(module).read_bytes() for module in PATCHED}


def original(module: str) -> bytes:
    return FILES[module.replace(".", "/") + ".py"]


ORIGINAL = {module: original(module) for module in PATCHED}


def layer(tree: Tree, contents: dict[str, bytes]) -> Layer:
    edits = {
        str(tree.path(module).resolve()): (Edit(start=0, end=len(original(module)), text=text),)
        for module, text in contents.items()
    }
    return Layer(
        recipe="oea",
        revision=1,
        parameters={"k0": 4},
        digest="d" * 64,
        operation="patch-1",
        applied_at="2026-01-01T00:00:00Z",
        applied_by=HOLDER,
        edits=edits,
    )


def make_tree(folder: Path, python: str, remote: Remote | None = None) -> Tree:
    site = folder / "site"
    for name, data in FILES.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    link = AgentLink(remote or open_local(), python=python)
    return Tree(site=site, state=folder / "state", python=python, link=link)


def with_release(tree: Tree, version: str) -> None:
    """Add what a wheel's installation leaves: dist-info with METADATA and RECORD."""
    info = tree.site / f"sglang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: sglang\nVersion: {version}\n")
    rows = []
    for name, data in FILES.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}")
    (info / "RECORD").write_text("\n".join(rows) + "\n")


__all__ = ["ATTENTION", "FILES", "HOLDER", "ORIGINAL", "PATCHED", "ROUTER", "Tree", "make_tree", "replace"]
