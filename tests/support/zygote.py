"""An interpreter that has the agent's modules loaded and forks a child for each message.

For tests that ask hundreds of times: the agent's own code, a real process that can be killed, without the
start of an interpreter each time. Owns: a Remote that ignores argv. Refuses: messages side by side.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from oeactl.ports import Completed

# The parent never has a second thread, so forking it is safe. rc goes back as 4 bytes, then stdout.
PROGRAM = """
import importlib, io, os, socket, struct, sys
from oeactl.agent import loader, wire
for name in sys.argv[2:]:
    importlib.import_module("oeactl.agent." + name)
line = socket.socket(fileno=int(sys.argv[1]))
stream = line.makefile("rb")
while True:
    header = stream.read(4)
    if not header:
        break
    message = stream.read(*struct.unpack("!I", header))
    source, sink = os.memfd_create("in"), os.memfd_create("out")
    os.write(source, message)
    os.lseek(source, 0, os.SEEK_SET)
    pid = os.fork()
    if pid == 0:
        os.dup2(source, 0)
        os.dup2(sink, 1)
        sys.stdin = io.TextIOWrapper(open(0, "rb"))
        for _ in ("the program", "the modules"):
            loader.block(sys.stdin.buffer)
        os._exit(wire.serve(lambda modules: None))
    _, status = os.waitpid(pid, 0)
    size = os.lseek(sink, 0, os.SEEK_END)
    os.lseek(sink, 0, os.SEEK_SET)
    line.sendall(struct.pack("!iI", os.waitstatus_to_exitcode(status), size) + os.read(sink, size))
    os.close(source)
    os.close(sink)
"""


class ZygoteRemote:
    """ports.Remote as far as an AgentLink needs it."""

    name = "@zygote"

    def __init__(self, operations: dict[str, str]) -> None:
        ours, theirs = socket.socketpair()
        words = [str(theirs.fileno()), *sorted(set(operations.values()))]
        self._process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], pass_fds=[theirs.fileno()])
        theirs.close()
        self._line = ours
        self._stream = ours.makefile("rb")

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> Completed:
        self._line.sendall(struct.pack("!I", len(stdin)) + stdin)
        code, size = struct.unpack("!iI", self._stream.read(8))
        output = self._stream.read(size)
        return Completed(returncode=None if code < 0 else code, stdout=output, stderr=b"")

    @contextmanager
    def stream(self, argv: Sequence[str], *, stdin: bytes = b"") -> Iterator[Iterator[bytes]]:
        yield iter([self.run(argv, stdin=stdin).stdout])

    @contextmanager
    def forward(self, port: int) -> Iterator[int]:
        raise NotImplementedError

    def get(self, path: str) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        self._stream.close()
        self._line.close()
        self._process.wait(60)
