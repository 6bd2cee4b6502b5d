"""An import gives the very bytes on its own release, and elsewhere applies or refuses; the rest it names."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oeactl.core.cases import run_cases
from oeactl.core.changes import changes, filled
from oeactl.core.edits import apply
from oeactl.core.import_recipe import FileChange, ImportedRecipe, import_recipe
from oeactl.core.parameters import bind
from oeactl.core.plan import make_plan
from oeactl.core.reasons import CannotPlace, Refusal
from oeactl.core.recipe import Recipe, load_recipe
from oeactl.errors import Refused
from tests.support.surveys import HOLDER, survey_of

BEFORE = textwrap.dedent(
    '''\
    """About routing."""
    import os
    import sys

    from pkg import Alpha, Beta

    KINDS = {
        "a",
        "b",
    }


    # picks
    def pick(rows, size=1):
        """Pick rows."""
        kept = []
        if rows:
            for row in rows:
                use(row)
        elif size:
            use(size)
        else:
            kept = None
        while kept:
            use(kept.pop())
        return kept


    @dataclass
    class Args:
        """Arguments."""

        a: int = 1
        b: str = "x"

        def check(self):
            connection = connect(self.a)
            connection.send(self.b)
            use(self)

        @staticmethod
        def add(parser):
            parser.add_argument("--a", type=int)
            return parser


    def last():
        return pick([1], size=2)
    '''
)

KINDS: dict[str, tuple[str, str, str]] = {  # name -> what is there, what comes instead, the operation for it
    "an import": ("import sys\n", "import sys\nimport json\n", "insert_after"),
    "an item of a set": ('    "b",\n}', '    "b",\n    "c",\n}', "add_item"),
    "a parameter": ("def pick(rows, size=1):", "def pick(rows, size=1, *, deep=False):", "add_parameter"),
    "a head": ("def pick(rows, size=1):", "def pick(rows, size=2) -> list:", "replace_header"),
    "a decorator": ("@dataclass\n", "@dataclass(frozen=True)\n", "replace_header"),
    "a condition": ("    if rows:", "    if rows and size:", "replace_expression"),
    "a condition of a branch": ("    elif size:", "    elif size > 1:", "replace_expression"),
    "an early return": (
        "    kept = []\n",
        "    if not rows:\n        return []\n    kept = []\n",
        "body_start",
    ),
    "a guard in a loop": (
        "        for row in rows:\n            use(row)\n",
        "        for row in rows:\n            if row is None:\n                continue\n"
        "            use(row)\n",
        "insert_before",
    ),
    "an argument": ("use(kept.pop())", "use(kept.pop(), deep=True)", "replace_statement"),
    "a retry loop": (
        "        connection = connect(self.a)\n        connection.send(self.b)\n",
        "        for _ in range(3):\n            connection = connect(self.a)\n"
        "            if connection.send(self.b):\n                break\n",
        "replace_statement",
    ),
    "a field": ('    b: str = "x"\n', '    b: str = "x"\n    c: bool = False\n', "insert_after"),
    "a flag": (
        '        parser.add_argument("--a", type=int)\n',
        '        parser.add_argument("--a", type=int)\n        parser.add_argument("--c")\n',
        "insert_after",
    ),
    "a method": (
        "        use(self)\n",
        "        use(self)\n\n    def more(self):\n        return self\n",
        "insert_after",
    ),
    "a name dropped": ("from pkg import Alpha, Beta\n", "from pkg import Alpha\n", "replace_statement"),
    "a stub": (
        "from pkg import Alpha, Beta\n",
        "from pkg import Alpha\n\ntry:\n    from pkg import Beta\n"
        "except ImportError:\n    class Beta:\n        pass\n",
        "insert_after",
    ),
    "a statement gone": ("    kept = []\n", "", "delete_statement"),
    "a function gone": ("\n\ndef last():\n    return pick([1], size=2)\n", "", "delete_statement"),
    "a function whole": (
        "def last():\n    return pick([1], size=2)\n",
        "def last(*args):\n    rows = list(args)\n    return pick(rows)\n",
        "replace_statement",
    ),
    "a wrapper at the end": (
        "    return pick([1], size=2)\n",
        "    return pick([1], size=2)\n\n\nlast = wrap(last)\n",
        "insert_after",
    ),
    "a comment": ("# picks\n", "# picks\n# rows, some\n", "replace_lead"),
    "a comment gone": ("# picks\n", "", "replace_lead"),
    "blank lines": ("import sys\n\nfrom", "import sys\nfrom", "replace_lead"),
    "a docstring": (
        '    """Pick rows."""\n',
        '    """Pick rows.\n\n      Some.\n    """\n',
        "replace_statement",
    ),
    "a loop's body": ("            use(row)\n", "            row.use()\n", "replace_statement"),
    "an elif": (
        "    else:\n        kept = None\n",
        "    # big\n    elif size > 9:\n        kept = [9]\n    else:\n        kept = None\n",
        "add_branch",
    ),
    "two elifs": (
        "    else:\n        kept = None\n",
        "    elif size > 9:\n        kept = [9]\n    elif size > 5:\n        kept = [5]\n"
        "    else:\n        kept = None\n",
        "add_branch",
    ),
    "an elif gone": ("    elif size:\n        use(size)\n", "", "delete_branch"),
    "an else come": (
        "        for row in rows:\n            use(row)\n",
        "        for row in rows:\n            if row:\n                use(row)\n"
        "            else:\n                use(None)\n",
        "replace_statement",
    ),
    "else": ("        kept = None\n", "        kept = ()\n", "replace_statement"),
}


def imported(after: bytes, before: bytes = BEFORE.encode(), **more: object) -> ImportedRecipe:
    change = FileChange(path="sglang/a.py", before=before, after=after)
    fields = {"title": "t", "summary": "s", "package": "sglang", "version": "1.0", **more}
    return import_recipe("mine", [change], **fields)  # type: ignore[arg-type]


def outcome(recipe: Recipe, before: bytes) -> bytes:
    (file,) = recipe.files
    made = changes(bind(recipe, {}, {}), file, before, where="a.py", version=None, python=None)
    return apply(before, filled(made.edits, "d" * 64))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_change_by_hand_becomes_an_edit_with_its_place(kind: str) -> None:
    old, new, operation = KINDS[kind]
    assert BEFORE.count(old) == 1, kind
    after = BEFORE.replace(old, new).encode()
    made = imported(after)
    assert made.left == (), kind
    recipe = load_recipe(made.files)
    assert [step.operation.op for step in recipe.files[0].steps][-1:] == [operation]
    assert outcome(recipe, BEFORE.encode()) == after
    assert all(result.ok for result in run_cases(recipe))
    assert len(made.files["cases/a/before.py"]) < len(BEFORE) / 2, "a case is a small source"


def test_all_at_once_and_on_a_module_that_moved_on() -> None:
    text = BEFORE
    for kind in (
        "an import",
        "an item of a set",
        "a parameter",
        "a guard in a loop",
        "a field",
        "a wrapper at the end",
    ):
        old, new, _ = KINDS[kind]
        text = text.replace(old, new)
    recipe = load_recipe(imported(text.encode()).files)
    assert outcome(recipe, BEFORE.encode()) == text.encode()
    moved = "# newer\nimport re\n" + BEFORE.replace("    while kept:\n", "    log(kept)\n    while kept:\n")
    expected = "# newer\nimport re\n" + text.replace("    while kept:\n", "    log(kept)\n    while kept:\n")
    assert outcome(recipe, moved.encode()) == expected.encode(), "places by meaning"


@pytest.mark.parametrize(
    ("kind", "old", "new", "said"),
    [
        ("a guard in a loop", "            use(row)\n", "            use(row, 1)\n", "matches 0 places"),
        ("a condition", "    if rows:", "    if rows is not None:", "matches 0 places"),
        ("a head", "def pick(rows, size=1):", "def pick(rows, size=1, more=2):", "matches 0 places"),
        ("a comment", "# picks\n", "# picks, says upstream\n", "are not those that the recipe knows"),
        ("a parameter", "def pick(rows, size=1):", "def pick(rows, size=1, deep=0):", "has this already"),
        ("a field", '    b: str = "x"\n', '    b: str = "x"\n    c: bool = True\n', "has this already"),
        ("a field", "class Args:", "class Arguments:", "there is no 'Args'"),
        (
            "a retry loop",
            "        use(self)\n",
            "        use(self)\n        connection = connect(self.a)\n",
            None,
        ),
    ],
)
def test_where_the_place_is_another_one_it_refuses(kind: str, old: str, new: str, said: str | None) -> None:
    recipe = load_recipe(imported(BEFORE.replace(*KINDS[kind][:2]).encode()).files)
    other = BEFORE.replace(old, new).encode()
    assert other != BEFORE.encode()
    if said is None:
        assert b"for _ in range(3):" in outcome(recipe, other)
        return
    with pytest.raises(CannotPlace) as refusal:
        outcome(recipe, other)
    assert said in "; ".join(line for reason in refusal.value.reasons for line in reason.lines())


def test_a_statement_that_is_not_alone_is_pinned_by_number_and_neighbours() -> None:
    before = b"def f():\n    use(1)\n    a = 1\n    use(1)\n    b = 2\n    use(1)\n"
    after = b"def f():\n    use(1)\n    a = 1\n    use(1)\n    new()\n    b = 2\n    use(1)\n"
    recipe = load_recipe(imported(after, before).files)
    assert outcome(recipe, before) == after
    other = before.replace(b"    a = 1\n", b"    a = 1\n    b = 2\n")
    assert outcome(recipe, other) == after.replace(b"    a = 1\n", b"    a = 1\n    b = 2\n")
    with pytest.raises(CannotPlace):
        outcome(recipe, before.replace(b"    a = 1\n", b"    a = 1\n    use(1)\n"))


def test_what_could_not_be_placed_is_named_and_keeps_the_recipe_from_being_applied() -> None:
    before = b"x = 1\n" + b"use(x)\n" * 5
    made = imported(b"x = 2\nuse(x)\nuse(x)\nuse(3)\nuse(x)\nuse(x)\n", before)
    assert made.left == ("sglang/a.py:4: use(3)",)
    recipe = load_recipe(made.files)
    assert recipe.document.unanchored == made.left
    plan = make_plan(
        bind(recipe, {}, {}), survey_of({"sglang.a": before}), operation="o", applied_at="", applied_by=HOLDER
    )
    assert isinstance(plan, Refusal)
    assert "the recipe is unfinished: its import left out one place" in plan.reasons[0].what
    with pytest.raises(Refused, match="nothing of it can be made into a recipe"):
        imported(b"x = 1\ny = 2", b"x = 1\n")  # the file's last newline goes


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a = 1; b = 2\nc = 3\n", b"a = 1; b = 4\nc = 3\n"),
        (b"a = 1; b = 2\nc = 3\n", b"a = 1; b = 2\nd = 4\nc = 3\n"),
        (b"a = 1; b = 2\nc = 3\n", b"c = 3\n"),
        (b"def f():\n    import pdb; pdb.set_trace()\n    return 1\n", b"def f():\n    return 1\n"),
        (b"if a: b()\nelif c: d()\n", b"if a: b()\nelif x: y()\nelif c: d()\n"),
    ],
)
def test_statements_that_share_a_line_are_one(before: bytes, after: bytes) -> None:
    recipe = load_recipe(imported(after, before).files)
    assert outcome(recipe, before) == after
    with pytest.raises(CannotPlace):
        outcome(recipe, before.replace(b"b", b"e"))


CHAIN = b"""\
def f(a):
    if a == 1:
        one(a)
    # two
    elif a == 2:
        two(a)
    elif a == 3:
        three(a)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"        three(a)\n", b"        three(a)\n    else:\n        more(a)\n"),
        (b"    # two\n", b"    # the second\n"),
        (b"    elif a == 3:\n        three(a)\n", b""),
        (b"    # two\n    elif a == 2:\n        two(a)\n", b"    elif a == 4:\n        four(a)\n"),
        (
            b"    elif a == 3:\n",
            b"    elif a == 4:\n        four(a)\n    elif a == 3 or a == 5:\n        five(a)\n    elif a:\n",
        ),
        (b"        one(a)\n", b"        if a:\n            one(a)\n"),
    ],
)
def test_branches_come_and_go_in_a_long_chain(old: bytes, new: bytes) -> None:
    """So long a chain that nobody wants it replaced as a whole."""
    more = b"".join(b"    elif a == %d:\n        use(%d)\n" % (at, at) for at in range(10, 60))
    before = CHAIN.replace(b"    # two\n", more + b"    # two\n")
    after = before.replace(old, new)
    assert before.count(old) == 1 and before != after
    made = imported(after, before)
    recipe = load_recipe(made.files)
    assert made.left == () and outcome(recipe, before) == after
    assert max(len(data) for path, data in made.files.items() if "case" not in path) < 1500
    assert all(result.ok for result in run_cases(recipe))


def test_other_files_are_taken_whole_with_hashes_or_refused_by_name() -> None:
    made = import_recipe(
        "mine",
        [
            FileChange(path="sglang/a.py", before=b"x = 1\n", after=b"x = 2\n"),
            FileChange(path="sglang/new.py", before=None, after=b"y = 1\n"),
            FileChange(path="sglang/c/E=1, [2].json", before=b"{}", after=b'{"a": 1}'),
            FileChange(path="sglang/gone.py", before=b"z = 1\n", after=None),
            FileChange(path="sglang/logo.png", before=b"", after=None, odd="a binary file"),
            FileChange(path="sglang/broken.py", before=b"x = 1\n", after=b"def f(:\n"),
        ],
        title="t",
        summary="s",
        package="sglang",
        version=None,
    )
    assert [text.partition(":")[0] for text in made.left] == [
        "sglang/gone.py",
        "sglang/logo.png",
        "sglang/broken.py",
    ]
    assert "a file that is deleted" in made.left[0] and "a binary file" in made.left[1]
    recipe = load_recipe(made.files)
    assert [(whole.path, whole.content) for whole in recipe.whole_files] == [
        ("sglang/new.py", b"y = 1\n"),
        ("sglang/c/E=1, [2].json", b'{"a": 1}'),
    ]
    assert recipe.whole_files[0].document.new_folder and not recipe.whole_files[0].document.replaces
    assert len(recipe.whole_files[1].document.replaces) == 1
    assert all(result.ok for result in run_cases(recipe))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfx = 1\r\ny = 2\r\n", b"\xef\xbb\xbfx = 1\r\nz = 3\r\ny = 2\r\n"),
        (b"def f():\n\tif a:\n\t\tx = 1\n", b"def f():\n\tif a:\n\t\tx = 1\n\t\tfor i in b:\n\t\t\tuse(i)\n"),
        (b"def f():\n  x = 1\n", b"def f():\n  x = 1\n  if x:\n    y = '''\n a'''\n"),
        (b"x = 1", b"x = 1\ny = 2"),
        (b"x = 1\n\n# the end\n", b"x = 2\n\n# the very end\n"),
        (b"x = 1\n", b"x = 1\n# the end"),
        (b"x = 1", b"x = 1\n\n# the end\n"),
        (b"x = 1\n\n\n", b"x = 1\n\n\ndef f():\n    pass\n"),
        (b"# head\nimport a\n", b"# head\nfrom __future__ import annotations\n\nimport a\n"),
        (b"# coding: latin-1\ns = '\xe9'\nx = 1\n", b"# coding: latin-1\ns = '\xe9'\nx = '\xfc'\n"),
        (b"x = 1\n", b'"""New."""\nx = 1\n'),
        (b"#!/bin/sh\n# licence\nx = 1\n", b"#!/bin/sh\n# licence\nimport os\nx = 1\n"),
        (b"def f(a): return a\n", b"def f(a): return a + 1\n"),
    ],
)
def test_bytes_are_what_they_were(before: bytes, after: bytes) -> None:
    made = imported(after, before)
    assert made.left == ()
    assert outcome(load_recipe(made.files), before) == after


STATEMENTS = st.sampled_from(
    [
        "a = 1",
        "b = f(a)",
        "use(a)",
        "return a",
        "# note",
        "",
        "import os",
        "x: int = 2",
        "pass",
        's = """t\n u"""',
    ]
)


PUT = st.sampled_from(
    [["new()"], ["c = 2"], ["# new"], [""], ["if c: d()"], ["a = 1; b = 2"], ["elif new:", "    new()"]]
)


@st.composite
def bodies(draw: st.DrawFn, depth: int = 0) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        if depth < 2 and draw(st.integers(0, 3)) == 0:
            head = draw(st.sampled_from(["def {}(a):", "class {}:", "if {}:", "for {} in a:", "while {}:"]))
            inner = [*draw(bodies(depth + 1)), "pass"]
            lines += [
                head.format(draw(st.sampled_from(["p", "q"]))),
                *(f"    {line}" if line else line for line in inner),
            ]
            if head.startswith("if"):
                for further in draw(
                    st.sampled_from([[], ["else:"], ["elif r:"], ["elif r:", "# s", "elif s:", "else:"]])
                ):
                    lines += [further, *(["    use(a)"] if further.endswith(":") else [])]
        else:
            lines += draw(STATEMENTS).split("\n")
    return lines


@settings(max_examples=30, deadline=None)
@given(bodies(), st.data())
def test_any_change_of_any_module_gives_its_bytes_or_is_named(lines: list[str], data: st.DataObject) -> None:
    changed = list(lines)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        indent = changed[at][: len(changed[at]) - len(changed[at].lstrip())]
        match data.draw(st.sampled_from(["put", "drop", "swap"])):
            case "put":
                changed[at:at] = [indent + line for line in data.draw(PUT)]
            case "drop" if len(changed) > 1:
                del changed[at]
            case _:
                changed[at] = indent + "swapped()"
    before, after = ("\n".join(side).encode() + b"\n" for side in (lines, changed))
    for text in (before, after):
        try:
            compile(text, "m.py", "exec", dont_inherit=True)
        except SyntaxError:
            assume(False)
    assume(before != after)
    try:
        made = imported(after, before)
    except Refused:
        return
    recipe = load_recipe(made.files)
    assert made.left or not recipe.files or outcome(recipe, before) == after
    assert all(result.ok for result in run_cases(recipe))
