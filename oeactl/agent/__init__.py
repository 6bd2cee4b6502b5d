"""The one program that is sent to a host: standard library only (CPython 3.8 on), nothing of ours imported.

The client bundles this folder's modules into one program text (``bundle()`` in edges/agent_link.py): a dict
of module name -> source behind a small in-memory importer (loader.py). Modules import each other relatively
(``from .wire import operation``): the same text is ``oeactl.agent`` here and ``oeactl_agent`` on the host,
where only the module that has the operation is imported.

One stdin carries all: a fixed bootstrap in argv (``python -I -S -c``) reads ``<length> <sha256>\\n`` and the
compressed program, and runs it only if the hash matches; the program reads ``<length> <sha256>\\n`` and a
zlib-compressed JSON request, and after its answer perhaps another one. An answer is framed by its request's
random sentinel, so that noise of rc files does no harm:

    \\n<sentinel> event <length>\\n<json>\\n      any number, each flushed; "alive" every second
    \\n<sentinel> answer <length>\\n<zlib json>  {"ok": ...} or
                                               {"error": {"kind", "what", "where", "hint", "details"}}

Request: {"op": name, "sentinel": hex, ...fields}. Bytes travel as base64 strings. Each module registers its
operations as ``@operation("name")`` over ``function(request, client)``. A test's request may carry ``fault``
(steps.py).
"""
