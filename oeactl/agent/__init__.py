"""The one program that is sent to a host: standard library only (CPython 3.8 on), nothing of ours imported.

The client bundles this folder's modules into one program text (``bundle()`` in edges/agent_link.py): a dict
of module name -> source behind a small in-memory importer, so ``from oeactl_agent import journal`` works on
the host. One stdin carries all: a fixed bootstrap in argv reads ``<length> <sha256>\\n`` and the program, and
runs it only if the hash matches; the program reads ``<length> <sha256>\\n`` and a zlib-compressed JSON
request. The answer is framed by the request's random sentinel, so that noise of rc files does no harm:

    \\n<sentinel> event <length>\\n<json>        any number, each flushed (operations that are watched)
    \\n<sentinel> answer <length>\\n<zlib json>  {"ok": ...} or
                                               {"error": {"kind", "what", "where", "hint", "details"}}

Request: {"op": name, "sentinel": hex, ...fields}. Bytes travel as base64 strings. Each module registers its
operations with ``@operation("name")`` from ``oeactl_agent.wire``.
"""
