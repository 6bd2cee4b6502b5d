"""The gates that judge the machine and the client that sent the load, not the load itself.

Owns: their thresholds. Refuses: what gates.py judges.
"""

from __future__ import annotations

from oeactl.core.evidence import Evidence, Gate, failed, not_seen, passed

#: A client that takes a core, or sees tokens late by a tenth of the time between them, measures itself.
_CLIENT_CORE = 0.9
_CLIENT_LAG = 0.1


def client_gate(evidence: Evidence) -> Gate:
    name, client, measured = "client", evidence.client, evidence.measurement
    if client is None:
        return not_seen(name, "this client does not report whether it kept up")
    cpu = f"{client.busiest_core:.0%} of a core in the busiest of {client.processes} processes"
    if client.busiest_core >= _CLIENT_CORE:
        return failed(name, f"it was the bottleneck: {cpu}; more processes: --client-processes")
    gap_ms = measured.itl_ms.median if measured and measured.itl_ms else None
    if gap_ms is None:
        return passed(name, cpu)
    late = f"it saw tokens {client.lag_mean_ms:.2f} ms late on average, {client.lag_p99_ms:.2f} ms p99, "
    late += f"and they are {gap_ms:.2f} ms apart"
    if client.lag_mean_ms > _CLIENT_LAG * gap_ms:
        return failed(name, f"{late}: a busy machine, or too few --client-processes")
    return passed(name, f"{late}; {cpu}", warning=client.lag_p99_ms > gap_ms)


def gpu_gate(name: str, evidence: Evidence) -> Gate:
    return not_seen(name, "GPU telemetry is not taken yet" if evidence.gpus else "no GPU on this host")
