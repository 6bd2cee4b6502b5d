"""Run a command with the network cut off and loopback up: ``python tests/support/offline.py CMD ARG...``

Owns: a network namespace of its own, made by Linux's unshare(2); needs root. Where that may not be, the
command runs all the same, and a line says that nothing was cut.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


def cut() -> str | None:
    """Move this process to a network of loopback alone. Returns why it could not, or None."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        return os.strerror(ctypes.get_errno())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
    return None


def main() -> None:
    problem = cut()
    print(
        f"the network stays as it is: {problem}" if problem else "the network is cut off; loopback is up",
        file=sys.stderr,
        flush=True,
    )
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
