"""The line that SGLang's own client writes for each load, as the driver takes it.

Owns: that it is one line, and of exactly the load asked for. Refuses: its fields (core/bench_serving).
"""

from __future__ import annotations

from typing import Any

from oeactl.core import bench_serving
from oeactl.core.burst import PointRequest
from oeactl.core.foreign_level import json_object
from oeactl.core.load import Measurement, PerRequest
from oeactl.errors import UsageError

DATASET = "random-ids"


def read_line(out: bytes, request: PointRequest) -> tuple[Measurement, PerRequest]:
    """Read the client's output: exactly one line, of exactly this load.

    ``Infinity`` is accepted as the request rate of a closed loop; ``server_info`` (which may hold the key) is
    not read. Raises ValueError, in one line, for anything else out of order.
    """
    lines = [line for line in out.split(b"\n") if line.strip()]
    if len(lines) != 1:
        raise ValueError(f"{len(lines)} lines where one was expected")
    try:
        fields = json_object(lines[0].decode("utf-8", "replace"), "")
        line, measurement, rows = bench_serving.read(fields, "")
    except UsageError as problem:
        raise ValueError(problem.what) from problem
    _check_load(line, request)
    if rows is None:
        raise ValueError("its per-request lists are missing")
    return measurement, rows


def _check_load(line: bench_serving.Line, request: PointRequest) -> None:
    point = request.point
    wanted: dict[str, Any] = {
        "backend": "sglang",
        "dataset_name": DATASET,
        "max_concurrency": point.concurrency,
        "random_input_len": point.input_len,
        "random_output_len": point.output_len,
        "random_range_ratio": 1.0,
    }
    for key, value in wanted.items():
        if getattr(line, key) != value:
            raise ValueError(f"'{key}' is {getattr(line, key)!r}, and {value!r} was asked for")
