"""The light load client: one program, standard library only (CPython 3.8 on), nothing of ours imported.

It is sent like the agent, as bytes, and runs where the load shall come from: on the host with the engine's
interpreter, or here. It needs no aiohttp: one event loop over plain sockets does less a token (see
docs/decisions/0005-a-client-of-plain-sockets.md).

    program.py   reads the order, forks the processes, tells how far they are, writes what came
    burst.py     one process: streams in a closed loop, or arrivals by rate
    wire.py      one HTTP/1.1 connection: bytes are stamped when they are seen and read when there is time
    answer.py    the HTTP answer and its events, out of bytes cut anywhere
    apis.py      what the events of each API mean: tokens, text, errors
    prompts.py   the prompts, made from a seed where they are sent
    lag.py       how late this client was itself
"""
