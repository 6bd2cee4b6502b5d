"""paramiko, without what it takes in only for a case that we leave to OpenSSH.

Where invoke is installed paramiko imports it, for ``Match exec`` of an ssh_config that it would read itself;
and invoke imports asyncio and unittest.mock: half as much again as paramiko, 70 ms of every command.
Owns: that import. Refuses: to do without invoke where a paramiko insists on it.
"""

from __future__ import annotations

import sys
from typing import Any

_absent: Any = None
if "invoke" in sys.modules:
    import paramiko as paramiko
else:
    sys.modules["invoke"] = _absent  # its import is an ImportError now, which paramiko takes for an answer
    try:
        import paramiko as paramiko
    except ImportError:
        del sys.modules["invoke"]
        import paramiko as paramiko
    else:
        del sys.modules["invoke"]
