"""The one program that is sent to a host: standard library only (CPython 3.8 on), imports nothing of ours.

The client bundles this folder's modules into one program text (``bundle()`` in edges/agent_link.py): a dict of
module name -> source with a small in-memory importer, so ``from oeactl_agent import journal`` works on the host.
Protocol, on one stdin: a fixed one-line bootstrap in argv reads ``<length> <sha256>\\n`` and the program, runs it only
if the hash matches; the program reads ``<length> <sha256>\\n`` and a zlib-compressed JSON request; it answers framed by
the request's random sentinel, so that noise of rc files does no harm:

    \\n<sentinel> event <length>\\n<json>        any number, each flushed (only for operations that are watched)
    \\n<sentinel> answer <length>\\n<zlib json>  {"ok": ...} or {"error": {"kind", "what", "where", "hint", "details"}}

Request: {"op": name, "sentinel": hex, "sudo_password"?: never here, ...fields}. Bytes travel as base64 strings.
Operations: each module registers its own with ``@operation("name")`` from ``oeactl_agent.wire``.
"""
