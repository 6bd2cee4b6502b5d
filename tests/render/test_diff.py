"""A diff shows both hashes and every change, and nothing that would drive a terminal."""

from __future__ import annotations

import hashlib

from oeactl.render.diff import coloured, unified_diff

BEFORE = b"a\nb\nc\n"
AFTER = b"a\nB\nc\nd\n"


def test_the_diff_carries_the_hashes_of_both_sides() -> None:
    assert unified_diff("/x/topk.py", BEFORE, AFTER) == (
        f"--- /x/topk.py  sha256 {hashlib.sha256(BEFORE).hexdigest()}\n"
        f"+++ /x/topk.py  sha256 {hashlib.sha256(AFTER).hexdigest()}\n"
        "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n"
    )


def test_equal_files_have_none() -> None:
    assert unified_diff("x", BEFORE, BEFORE) == ""


def test_a_file_from_nothing_and_to_nothing() -> None:
    assert unified_diff("x", b"", b"a\n").endswith("@@ -0,0 +1 @@\n+a\n")
    assert unified_diff("x", b"a\n", b"").endswith("@@ -1 +0,0 @@\n-a\n")


def test_a_missing_last_newline_is_said() -> None:
    assert unified_diff("x", b"a", b"a\n").endswith("-a\n\\ No newline at end of file\n+a\n")


def test_bytes_that_would_drive_a_terminal_are_shown() -> None:
    shown = unified_diff("x", b"a\r\n\x1b[2J\n", b"a\n\xff\tb\x0c\n")
    assert "-a\\r\n" in shown
    assert "-\\x1b[2J\n" in shown
    assert "+\\xff\tb\\x0c\n" in shown


def test_colours_follow_the_first_character() -> None:
    diff = unified_diff("x", BEFORE, AFTER)
    text = coloured(diff)
    assert text.plain == diff
    styles = {text.plain[span.start : span.end]: span.style for span in text.spans}
    assert styles["-b\n"] == "red"
    assert styles["+B\n"] == "green"
    assert styles["@@ -1,3 +1,4 @@\n"] == "cyan"
