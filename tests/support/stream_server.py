"""A server of token streams that does exactly what its script says, at a fixed pace: the ideal is known.

    python -m tests.support.stream_server --port 31000 --ttft-ms 50 --itl-ms 20      (for the benchmark)

Owns: ``/generate``, ``/v1/completions`` and ``/v1/chat/completions`` as streams over plain asyncio; each
oddity is an Act. Tests begin it in a thread with ``serving``. Refuses: to generate anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

APIS = {"/generate": "generate", "/v1/completions": "completions", "/v1/chat/completions": "chat"}
OBJECTS = {"completions": "text_completion", "chat": "chat.completion.chunk"}
WORDS = ("one ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight ")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as it came."""

    number: int
    api: str
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def tokens(self) -> int:
        sampling = self.body.get("sampling_params") or {}
        return int(sampling.get("max_new_tokens") or self.body.get("max_tokens") or 1)

    @property
    def prompt(self) -> Any:
        for name in ("input_ids", "text", "prompt"):
            if name in self.body:
                return self.body[name]
        return self.body["messages"][-1]["content"]


Act = Callable[["Voice", Asked], Any]


class Voice:
    """What an act speaks with: pieces of the answer, written as they are, or events in their frame."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._chunked = False

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: int = 200, kind: str = "text/event-stream", **fields: str) -> None:
        """Begin an answer; chunked unless it says content_length or connection."""
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        self._chunked = "content-length" not in named and named.get("connection") != "close"
        if self._chunked:
            named["transfer-encoding"] = "chunked"
        lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}"]
        lines += [f"{name}: {value}" for name, value in named.items()]
        await self.raw("\r\n".join((*lines, "", "")).encode())

    async def body(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    async def event(self, value: Any) -> None:
        await self.body(
            b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"
        )

    async def end(self) -> None:
        if self._chunked:
            await self.raw(b"0\r\n\r\n")

    async def done(self) -> None:
        await self.event(b"[DONE]")
        await self.end()

    def close(self) -> None:
        self._writer.close()

    def drop(self) -> None:
        """Reset the connection."""
        self._writer.transport.abort()


def token(asked: Asked, count: int, text: str, *, last: bool = False) -> dict[str, Any]:
    """The event of the ``count``-th token (from 1) in the form of the api asked."""
    if asked.api == "generate":
        finish = {"type": "length"} if last else None
        meta = {"completion_tokens": count, "prompt_tokens": prompt_tokens(asked), "cached_tokens": 0}
        return {"text": text, "meta_info": {**meta, "finish_reason": finish}}
    reason = "length" if last else None
    if asked.api == "completions":
        choice = {"index": 0, "text": text, "finish_reason": reason}
        return {"object": OBJECTS["completions"], "choices": [choice], "usage": None}
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
    return {"object": OBJECTS["chat"], "choices": [choice]}


def usage(asked: Asked, tokens: int) -> dict[str, Any]:
    """The last event of OpenAI's streams: counts alone."""
    counts = {"prompt_tokens": prompt_tokens(asked), "completion_tokens": tokens}
    counted = {**counts, "prompt_tokens_details": {"cached_tokens": 0}}
    return {"object": OBJECTS[asked.api], "choices": [], "usage": counted}


def prompt_tokens(asked: Asked) -> int:
    """Ids count one each, text one per word."""
    prompt = asked.prompt
    return len(prompt.split()) if isinstance(prompt, str) else len(prompt)


def words(asked: Asked, index: int) -> str:
    """Other text for each request, which does not repeat itself."""
    return f"{WORDS[(index * 5 + asked.number) % 8]}{(index * 7919 + asked.number * 104729) % 9973} "


def paced(*, ttft_s: float = 0.0, itl_s: float = 0.0, text: Callable[[Asked, int], str] = words) -> Act:
    """Answer in full: the first token after ``ttft_s``, the others ``itl_s`` apart by a fixed clock."""

    async def act(voice: Voice, asked: Asked) -> None:
        begun = time.perf_counter() + ttft_s
        await voice.head()
        said = ""
        for index in range(asked.tokens):
            wait = begun + index * itl_s - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            piece = text(asked, index)
            said += piece
            shown = said if asked.api == "generate" else piece
            await voice.event(token(asked, index + 1, shown, last=index + 1 == asked.tokens))
        if asked.api != "generate":
            await voice.event(usage(asked, asked.tokens))
        await voice.done()

    return act


@dataclass
class Server:
    """What tests see of it. act: what happens at each stream; may be changed between bursts. pages: path ->
    what else it answers, as JSON; texts: likewise, as it is; refused: answered 500 unless
    it is a stream.
    """

    act: Act
    port: int = 0
    pages: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    asked: list[Asked] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    paths: list[str] = field(default_factory=list)
    talks: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        return len(self.talks)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.talks[writer] = asyncio.current_task()
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                line, *heads = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {}
                for head in heads:
                    name, _, value = head.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(Voice(writer), line.split()[1], headers, body)
                if writer.is_closing():
                    break
        writer.close()

    async def _whole(self, voice: Voice, asked: Asked) -> None:
        """One answer, not streamed."""
        last = token(asked, asked.tokens, "a", last=True)
        data = json.dumps(
            {**last, **({} if asked.api == "generate" else usage(asked, asked.tokens))}
        ).encode()
        await voice.head(200, "application/json", content_length=str(len(data)), connection="close")
        await voice.raw(data)
        voice.close()

    async def _page(self, voice: Voice, status: int, data: bytes) -> None:
        await voice.head(status, "application/json", content_length=str(len(data)), connection="close")
        await voice.raw(data)
        voice.close()

    async def _answer(self, voice: Voice, path: str, headers: dict[str, str], body: bytes) -> None:
        self.paths.append(path)
        if path in self.refused and not json.loads(body or b"{}").get("stream"):
            await self._page(voice, 500, b"{}")
            return
        if path not in APIS or path in self.absent:
            data = self.texts[path] if path in self.texts else json.dumps(self.pages.get(path, {}))
            await self._page(voice, 200 if path in self.pages or path in self.texts else 404, data.encode())
            return
        asked = Asked(number=len(self.asked), api=APIS[path], body=json.loads(body), headers=headers)
        if not asked.body.get("stream"):
            await self._whole(voice, asked)
            return
        self.asked.append(asked)
        await self.act(voice, asked)


@contextmanager
def serving(act: Act) -> Iterator[Server]:
    """A server in a thread of its own, for the length of the block; no connection outlives it."""
    server = Server(act)
    ended = asyncio.Event()
    loop = asyncio.new_event_loop()
    listener = loop.run_until_complete(
        asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 26, backlog=2048)
    )
    server.port = listener.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_until_complete, args=(_until(ended, server, listener),))
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


async def _until(ended: asyncio.Event, server: Server, listener: asyncio.Server) -> None:
    """Serve until then and leave no socket open. Who is being let in at that moment needs the listener still:
    asyncio loses the socket of a connection whose server was closed before its transport was made.
    """
    await ended.wait()
    asyncio.get_running_loop().remove_reader(listener.sockets[0].fileno())
    own = asyncio.current_task()
    while True:
        for writer, talk in server.talks.items():
            writer.transport.abort()
            if talk:
                talk.cancel()
        others = asyncio.all_tasks() - {own}
        if not others:
            break
        await asyncio.wait(others, timeout=0.05)
    listener.close()
    await asyncio.sleep(0)


async def _main(port: int, act: Act) -> None:
    server = Server(act, port)
    async with await asyncio.start_server(
        server.serve, "127.0.0.1", port, limit=1 << 26, backlog=4096
    ) as one:
        print("ready", flush=True)
        await one.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--itl-ms", type=float, default=20.0)
    given = parser.parse_args()
    asyncio.run(_main(given.port, paced(ttft_s=given.ttft_ms / 1e3, itl_s=given.itl_ms / 1e3)))
