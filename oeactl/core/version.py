"""The version of what ``results/`` holds.

Owns: that number. Refuses: to say what it means (``run.py`` and ``change.py`` do).
"""

#: 2 added what a budget, the compilation caches, the launch and the changes of arms say; 1 is lifted on
#: reading (results.py).
SCHEMA_VERSION = 2
