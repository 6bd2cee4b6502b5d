"""What holds for every test: a Ctrl-C reaches the commands that it is sent to.

A run in the background of a script is begun with SIGINT and SIGHUP ignored, and hands that on to every child.
"""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
