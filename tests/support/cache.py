"""Where tests and the demo keep what they download: outside the checkout, nowhere else."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    """``$OEACTL_CACHE``, else ``oeactl`` in the user's cache folder."""
    if os.environ.get("OEACTL_CACHE"):
        return Path(os.environ["OEACTL_CACHE"]).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oeactl"


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Hold the cache's lock of that name: two test runs must not fetch the same thing at once."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
