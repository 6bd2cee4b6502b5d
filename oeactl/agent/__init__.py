"""The one program that is sent to a host: standard library only (CPython 3.8 on), nothing of ours imported.

The client (edges/agent_program.py) sends a small in-memory importer (loader.py), and with each question the
modules that it needs and that were not sent before. Modules import each other relatively (``from .wire import
operation``): the same text is ``oeactl.agent`` here and ``oeactl_agent`` on the host, where only the module
that has the operation is imported. They go as source, and as the code that the client's Python makes of it:
a host with a Python of the same magic number compiles nothing.

One stdin carries all, in blocks of ``<length> <sha256>\\n`` and as many zlib-compressed bytes. A fixed
bootstrap in argv (``python -I -S -c``) reads the first, the importer, and runs it only if the hash matches;
then a block of modules (marshal) and one of the JSON request follow for each question. An answer is framed by
its request's random sentinel, so that noise of rc files does no harm:

    \\n<sentinel> event <length>\\n<json>\\n      any number, each flushed; "alive" every second
    \\n<sentinel> answer <length>\\n<zlib json>  {"ok": ...} or
                                               {"error": {"kind", "what", "where", "hint", "details"}}

Request: {"op": name, "module": that has it, "sentinel": hex, ...fields}. Bytes travel as base64 strings. Each
module registers its operations as ``@operation("name")`` over ``function(request, client)``. A test's request
may carry ``fault`` (steps.py).
"""
