"""A difference is read and applied as git does it: the same bytes, or a refusal where git refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oeactl.core.difference import DoesNotApply, applied, read_difference, subject, write_difference
from oeactl.errors import UsageError

NAME = 'sglang/a b/E=8,[128, 128] "ü".json'
LINES = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n", b"d\tx\n", b"\xff\n", b"-- e\n"]), max_size=30
)
TEXT = st.builds(
    lambda lines, last: b"".join(lines) + last, LINES, st.sampled_from([b"", b"end", b"@@ -1 +1 @@"])
)


def git(folder: Path, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(folder), *words], input=data, capture_output=True, check=False)


def as_git_applies(folder: Path, name: str, before: bytes | None, diff: bytes) -> bytes | None:
    """What ``git apply`` makes of the file; None where it refuses or takes it away."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if before is not None:
        path.write_bytes(before)
    done = git(folder, "apply", "--whitespace=nowarn", "-", data=diff)
    return path.read_bytes() if done.returncode == 0 and path.exists() else None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT, TEXT)
def test_what_is_written_git_applies_and_what_is_read_gives_the_same(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    if before == after:
        return
    diff = write_difference(NAME, before, after)
    assert as_git_applies(tmp_path, NAME, before, diff) == after
    (file,) = read_difference(diff, "x.diff")
    assert (file.old, file.new, file.odd) == (f"a/{NAME}", f"b/{NAME}", None)
    assert applied(before, file.hunks) == after


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXT, TEXT, st.integers(0, 3), LINES)
def test_a_hunk_that_moved_goes_where_git_puts_it_or_nowhere(
    tmp_path: Path, before: bytes, after: bytes, context: int, above: list[bytes]
) -> None:
    (tmp_path / "old").write_bytes(before)
    (tmp_path / "new").write_bytes(after)
    diff = git(tmp_path, "diff", "--no-index", f"-U{context}", "--text", "old", "new").stdout
    if not diff or context == 0:  # without context git wants another option
        return
    diff = diff.replace(b"a/old", b"a/f").replace(b"b/new", b"b/f")
    moved = b"".join(above) + before
    (file,) = read_difference(diff, "x.diff")
    try:
        ours: bytes | None = applied(moved, file.hunks)
    except DoesNotApply:
        ours = None
    assert ours == as_git_applies(tmp_path, "f", moved, diff)


def test_new_gone_and_empty_files_have_their_headers(tmp_path: Path) -> None:
    for after in (b"x = 1\n", b"", b"x"):
        diff = write_difference("a b.py", None, after)
        assert as_git_applies(tmp_path, "a b.py", None, diff) == after
        (file,) = read_difference(diff, "x")
        assert (file.old, file.new) == (None, "b/a b.py")
        assert applied(b"", file.hunks) == after
    gone = write_difference("a b.py", b"x\n", None)
    assert as_git_applies(tmp_path, "a b.py", b"x\n", gone) is None and not (tmp_path / "a b.py").exists()
    assert read_difference(gone, "x")[0].new is None


ODD = b"""\
From 0123 Mon Sep 17 00:00:00 2001
Subject: [PATCH 1/2] Say it
 in two lines

---
 a.py | 2 +-

diff --git a/old.py b/new.py
similarity index 90%
rename from old.py
rename to new.py
index 1..2 100644
--- a/old.py
+++ b/new.py
@@ -1 +1 @@ def f():
-x
+y
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/logo.png b/logo.png
index 3..4 100644
Binary files a/logo.png and b/logo.png differ
diff --git a/link b/link
new file mode 120000
--- /dev/null
+++ b/link
@@ -0,0 +1 @@
+target
\\ No newline at end of file
--
2.40.0
"""


def test_what_is_no_change_of_lines_is_called_by_its_name() -> None:
    files = read_difference(ODD, "x.diff")
    assert [(file.name, file.odd) for file in files] == [
        ("b/new.py", "a renamed or copied file"),
        ("b/run.sh", "a change of mode"),
        ("b/logo.png", "a binary file"),
        ("b/link", "a symbolic link"),
    ]
    assert files[3].hunks[0].new == (b"target",)
    assert subject(ODD) == "Say it in two lines"
    assert subject(b"diff --git a/x b/x\n") is None


def test_the_plain_diff_of_two_files_is_read_with_its_times() -> None:
    text = b"--- /opt/a.py.orig\t2026-01-01 00:00:00\n+++ /opt/a.py\t2026-01-02 00:00:00\n@@ -1,0 +2 @@\n+x\n"
    (file,) = read_difference(text, "x.diff")
    assert (file.old, file.new) == ("/opt/a.py.orig", "/opt/a.py")
    assert applied(b"a\nb\n", file.hunks) == b"a\nx\nb\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"hello\n", "no unified difference"),
        (b"--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-x\n", "x.diff:5"),
        (b"@@ -1 +1 @@\n-x\n+y\n", "without the names"),
        (b"--- a/x\n+++ b/x\n@@ -x +1 @@\n", "not the head of a hunk"),
    ],
)
def test_what_is_no_difference_is_usage(text: bytes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_difference(text, "x.diff")
    assert said in f"{caught.value.what} {caught.value.where}"


def test_lines_that_are_not_there_are_named() -> None:
    (file,) = read_difference(b"--- a/x\n+++ b/x\n@@ -7,2 +7 @@\n \n-gone()\n", "x")
    with pytest.raises(DoesNotApply, match=r"no place for the lines at 7: gone\(\)"):
        applied(b"a\nb\n", file.hunks)
