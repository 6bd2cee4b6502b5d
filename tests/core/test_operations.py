"""Every operation, on sources of our own: the kinds of change people make to installed engines by hand."""

from __future__ import annotations

import re
import textwrap

import pytest

from oeactl.core.changes import changes, filled
from oeactl.core.edits import apply
from oeactl.core.reasons import CannotPlace
from tests.support.recipes import bound_of

_MARK = re.compile(rb"^[ \t]*# (?:>>>|<<<) oeactl [^\r\n]*(?:\r\n|\r|\n|\Z)", re.MULTILINE)


def run(before: bytes, edits: str, **more: object) -> bytes:
    bound = bound_of(edits, **more)
    made = changes(bound, bound.recipe.files[0], before, where="a.py", version=None, python=None)
    return apply(before, filled(made.edits, "d" * 64))


def made(before: str, edits: str, **more: object) -> str:
    """The outcome without our marks."""
    return _MARK.sub(b"", run(textwrap.dedent(before).encode(), edits, **more)).decode()


def refused(before: str, edits: str) -> str:
    with pytest.raises(CannotPlace) as refusal:
        made(before, edits)
    return "\n".join(line for reason in refusal.value.reasons for line in reason.lines())


def expect(text: str) -> str:
    return textwrap.dedent(text)


def test_a_block_stands_between_marks_with_recipe_revision_and_digest() -> None:
    edit = "- {id: note, op: insert_after, at: {statement: 'x = 1'}, code: 'y = OEACTL.size'}\n"
    assert run(b"x = 1\nz = 3\n", edit, size="8").decode() == (
        f"x = 1\n# >>> oeactl trial r1 note sha256:{'d' * 64}\ny = 8\n# <<< oeactl trial note\nz = 3\n"
    )


def test_an_import_a_keyword_only_parameter_and_its_use_at_four_calls() -> None:
    before = """\
    import os
    from a import b

    def route(x, *, y=1):
        return x

    def use(x):
        route(x)
        route(x, y=2)
        if x:
            return route(
                x,
                y=3,
            )
        return [route(x,  # the first
                      y=4)]
    """
    edits = """\
    - {id: import, op: add_import, code: "import math\\nfrom a import c"}
    - {id: parameter, op: add_parameter, scope: [def route], keyword_only: true, code: "fast: bool = False"}
    - {id: calls, op: add_argument, at: {expression: "route(...)", pick: all, count: 4}, code: fast=True}
    """
    assert made(before, edits) == expect(
        """\
    import os
    from a import b
    import math
    from a import c

    def route(x, *, y=1, fast: bool = False):
        return x

    def use(x):
        route(x, fast=True)
        route(x, y=2, fast=True)
        if x:
            return route(
                x,
                y=3,
                fast=True,
            )
        return [route(x,  # the first
                      y=4, fast=True)]
    """
    )


def test_a_different_number_of_calls_is_refused_with_all_of_them() -> None:
    edits = "- {id: a, op: add_argument, at: {expression: 'f(...)', pick: all, count: 4}, code: x=1}\n"
    said = refused("f(1)\nf(2)\ng(f(3))\n", edits)
    assert "matches 3 places, not 4" in said
    assert [line.rpartition(": ")[2] for line in said.splitlines() if "matches  " in line] == [
        "f(1)",
        "f(2)",
        "f(3)",
    ]


def test_an_early_return_under_a_condition_at_the_start_of_a_function() -> None:
    before = '''\
    class A:
        def f(self, x):
            """Say x."""
            # about y
            y = x
            return y

        def g(self): return 1
    '''
    edits = """\
    - id: early
      op: body_start
      scope: [class A, def f]
      bound: [self, x]
      code: |
        if x is None:
            return '''a
        b'''
    """
    assert made(before, edits) == expect(
        """\
    class A:
        def f(self, x):
            \"""Say x.\"""
            if x is None:
                return '''a
    b'''
            # about y
            y = x
            return y

        def g(self): return 1
    """
    )
    assert "shares its line" in refused(
        before, edits.replace("def f", "def g").replace("[self, x]", "[self]")
    )
    assert "'z' may have no value" in refused(before, edits.replace("[self, x]", "[self, z]"))


def test_an_item_of_a_set_literal_inside_a_class() -> None:
    before = """\
    class A:
        KINDS = {
            "a",
            "b",  # the last
        }
        NAMES = ["x"]
        MAP = {"k": (1)}
        EMPTY = []
        PAIR = (1, 2)
    """
    edits = """\
    - {id: a, op: add_item, at: {scope: [class A], statement: 'KINDS = {...}', part: value}, code: "'c'"}
    - {id: b, op: add_item, at: {scope: [class A], expression: "['x']"}, code: "'y'"}
    - {id: c, op: add_item, at: {scope: [class A], binds: MAP, part: value}, code: "'l': OEACTL.size"}
    - {id: d, op: add_item, at: {scope: [class A], binds: EMPTY, part: value}, code: "1"}
    - {id: e, op: add_item, at: {scope: [class A], binds: PAIR, part: value}, code: "3"}
    """
    assert made(before, edits) == expect(
        """\
    class A:
        KINDS = {
            "a",
            "b",  # the last
            'c',
        }
        NAMES = ["x", 'y']
        MAP = {"k": (1), 'l': 4}
        EMPTY = [1]
        PAIR = (1, 2, 3)
    """
    )
    assert "is there already" in refused(before, edits.replace("'c'", "'b'"))


def test_two_arguments_replaced_in_one_call() -> None:
    before = "run(a, size=b + 1, kind='k')\n"
    edits = """\
    - id: a
      op: replace_expression
      at: {expression: run(...), part: argument 0}
      code: OEACTL.matched or None
    - id: b
      op: replace_expression
      at: {expression: run(...), part: argument size}
      code: OEACTL.matched * 2
    """
    assert made(before, edits) == "run(a or None, size=(b + 1) * 2, kind='k')\n"
    assert "has no part 'argument 3'" in refused(before, edits.replace("argument 0", "argument 3"))


def test_a_name_dropped_from_an_import_and_a_stub_in_its_place() -> None:
    before = """\
    from pkg.mod import (
        Alpha,
        Beta,  # both
        Gamma,
    )

    x = Alpha, Beta, Gamma
    """
    edits = """\
    - {id: drop, op: drop_import, module: pkg.mod, name: Beta}
    - id: stub
      op: insert_after
      at: {statement: "from pkg.mod import Alpha, Beta, Gamma"}
      code: |
        try:
            from pkg.mod import Beta
        except ImportError:
            class Beta:
                pass
    """
    assert made(before, edits) == expect(
        """\
    from pkg.mod import (
        Alpha,
        Gamma,
    )
    try:
        from pkg.mod import Beta
    except ImportError:
        class Beta:
            pass

    x = Alpha, Beta, Gamma
    """
    )
    assert made("from a import b\nx = 1\n", "- {id: d, op: drop_import, module: a, name: b}\n") == "x = 1\n"
    assert "matches 0 places" in refused(before, "- {id: d, op: drop_import, module: pkg.mod, name: Delta}\n")


def test_a_block_before_an_if_that_tests_a_given_name() -> None:
    before = """\
    def f(flag, other):
        if other:
            pass
        # why
        # so
        if not flag:
            return 1
    """
    edits = """\
    - {id: a, op: insert_before, at: {scope: [def f], tests: flag}, bound: [flag], code: "flag = bool(flag)"}
    """
    assert made(before, edits) == expect(
        """\
    def f(flag, other):
        if other:
            pass
        flag = bool(flag)
        # why
        # so
        if not flag:
            return 1
    """
    )


def test_two_statements_replaced_by_a_retry_loop() -> None:
    before = """\
    def f():
        a = 1
        conn = connect(a)
        conn.send(a)  # may fail
        return a
    """
    edits = """\
    - id: retry
      op: replace_statement
      at: {scope: [def f], statement: "conn = connect(...)\\nconn.send(...)"}
      bound: [a]
      code: |
        for attempt in range(OEACTL.size):
            conn = connect(a)
            if conn.send(a):
                break
    """
    assert made(before, edits) == expect(
        """\
    def f():
        a = 1
        for attempt in range(4):
            conn = connect(a)
            if conn.send(a):
                break
        return a
    """
    )


def test_the_same_guard_in_two_loops() -> None:
    before = """\
    def f(rows):
        for row in rows:
            use(row)
        while rows:
            row = rows.pop()
            use(row)
    """
    edits = """\
    - id: guard
      op: insert_before
      at: {scope: [def f], statement: use(row), pick: all, count: 2}
      code: |
        if row is None:
            continue
    """
    assert made(before, edits).count("if row is None:\n            continue\n        use(row)") == 2


def test_a_dataclass_field_and_an_add_argument_call() -> None:
    before = '''\
    @dataclass
    class Args:
        """Arguments."""

        a: int = 1
        b: str = "x"
        """What b is."""

        def check(self):
            pass

        @staticmethod
        def add(parser):
            parser.add_argument("--a", type=int)
            parser.add_argument(
                "--b",
                type=str,
            )
            return parser
    '''
    edits = """\
    - {id: field, op: add_class_field, scope: [class Args], code: "c: bool = False"}
    - id: flag
      op: insert_after
      at: {scope: [class Args, def add], statement: 'parser.add_argument("--b", ...)'}
      code: parser.add_argument("--c", action="store_true")
    """
    assert made(before, edits) == expect(
        '''\
    @dataclass
    class Args:
        """Arguments."""

        a: int = 1
        b: str = "x"
        """What b is."""
        c: bool = False

        def check(self):
            pass

        @staticmethod
        def add(parser):
            parser.add_argument("--a", type=int)
            parser.add_argument(
                "--b",
                type=str,
            )
            parser.add_argument("--c", action="store_true")
            return parser
    '''
    )


def test_a_condition_extended_by_and() -> None:
    before = "if a or b:\n    pass\nelif (\n    c  # why\n    or d\n):\n    pass\n"
    edits = """\
    - {id: a, op: replace_expression, at: {tests: a, part: test}, code: OEACTL.matched and ready}
    - {id: b, op: replace_expression, at: {tests: c, part: test}, code: OEACTL.matched and ready}
    """
    assert made(before, edits) == (
        "if (a or b) and ready:\n    pass\nelif (\n    ((c  # why\n    or d) and ready)\n):\n    pass\n"
    )


def test_a_whole_function_replaced_with_its_decorators() -> None:
    before = """\
    @cache
    @other(1)
    def f(x):
        return x

    def g(): pass
    """
    edits = '- {id: a, op: replace_definition, scope: [def f], code: "def f(x):\\n    return OEACTL.size"}\n'
    assert made(before, edits) == "def f(x):\n    return 4\n\ndef g(): pass\n"


def test_a_wrapper_appended_at_the_end_of_a_module() -> None:
    edits = "- {id: a, op: append, code: 'f = wrap(f)'}\n"
    assert made("def f(): pass\n", edits) == "def f(): pass\n\n\nf = wrap(f)\n"
    assert made("def f(): pass", edits) == "def f(): pass\n\n\nf = wrap(f)\n"
    assert run(b"x = 1", edits)[-1:] != b"\n", "a missing last newline stays missing"


def test_edits_of_which_one_is_anchored_on_anothers_output() -> None:
    before = "def f():\n    x = 1\n    return x\n"
    edits = """\
    - {id: first, op: insert_after, at: {statement: x = 1}, code: y = call(x)}
    - {id: second, op: add_argument, builds_on: [first], at: {expression: call(...)}, code: deep=True}
    - {id: third, op: insert_before, builds_on: [second], at: {binds: y}, code: log(x)}
    """
    assert (
        made(before, edits) == "def f():\n    x = 1\n    log(x)\n    y = call(x, deep=True)\n    return x\n"
    )


def test_statements_put_into_a_try_keep_their_strings_and_comments() -> None:
    before = """\
    def f():
        x = '''one
    two'''  # kept
        y = g(
            x)

        return y
    """
    edits = """\
    - id: safe
      op: wrap_try
      at: {scope: [def f], statement: "x = ...\\ny = g(...)"}
      code: |
        try:
            ...
        except ValueError:
            y = None
    """
    assert made(before, edits) == expect(
        """\
    def f():
        try:
            x = '''one
    two'''  # kept
            y = g(
                x)
        except ValueError:
            y = None

        return y
    """
    )


def test_definitions_before_and_after_another() -> None:
    before = (
        "import a\n\n\n# f does\n@dec\ndef f():\n    pass\n\n\nclass B:\n    def m(self):\n        pass\n"
    )
    edits = """\
    - {id: one, op: define_before, at: {definition: def f}, code: "def e():\\n    pass"}
    - {id: two, op: define_after, at: {scope: [class B], definition: def m}, code: "def n(self):\\n    pass"}
    """
    assert made(before, edits) == (
        "import a\n\n\ndef e():\n    pass\n\n\n# f does\n@dec\ndef f():\n    pass\n\n\n"
        "class B:\n    def m(self):\n        pass\n\n    def n(self):\n        pass\n"
    )


def test_deleted_statements_leave_pass_in_a_body_that_had_no_other() -> None:
    assert made(
        "for x in y:\n    drop(x)\nz = 1\n", "- {id: a, op: delete_statement, at: {statement: drop(x)}}\n"
    ) == ("for x in y:\n    pass\nz = 1\n")
    assert made("a()\nb()\n", "- {id: a, op: delete_statement, at: {statement: a()}}\n") == "b()\n"


@pytest.mark.parametrize(
    ("head", "parameter", "keyword_only", "after"),
    [
        ("def f():", "x=1", False, "def f(x=1):"),
        ("def f():", "x=1", True, "def f(*, x=1):"),
        ("def f(a, b=(1)):", "x=1", False, "def f(a, b=(1), x=1):"),
        ("def f(a, /):", "x=1", True, "def f(a, /, *, x=1):"),
        ("def f(a, *args):", "x=1", True, "def f(a, *args, x=1):"),
        ("def f(a, *args):", "x", False, "def f(a, x, *args):"),
        ("def f(a, *, b: int):", "x=1", False, "def f(a, x=1, *, b: int):"),
        ("def f(a, **kw) -> int:", "x=1", True, "def f(a, *, x=1, **kw) -> int:"),
        (
            "def f(\n    a,\n    *,\n    b=1,  # b\n):",
            "x=1",
            True,
            "def f(\n    a,\n    *,\n    b=1,  # b\n    x=1,\n):",
        ),
        ("def f(\n    a,\n    **kw,\n):", "x=1", True, "def f(\n    a,\n    *, x=1,\n    **kw,\n):"),
        (
            "def f(\n    a: int\n) -> None:",
            "x: int = 1",
            False,
            "def f(\n    a: int,\n    x: int = 1,\n) -> None:",
        ),
    ],
)
def test_a_parameter_goes_where_python_takes_it(
    head: str, parameter: str, keyword_only: bool, after: str
) -> None:
    only = str(keyword_only).lower()
    edit = f"- {{id: a, op: add_parameter, scope: [def f], keyword_only: {only}, code: '{parameter}'}}\n"
    assert made(f"{head}\n    pass\n", edit) == f"{after}\n    pass\n"
    assert "already" in refused(f"{after}\n    pass\n", edit)


_FUTURE = '"""Doc."""\n\nfrom __future__ import annotations\n'
_CHECKING = "from typing import TYPE_CHECKING\n"
_CHECKED = "if TYPE_CHECKING:\n    from a import b\n"
_TRIED = "try:\n    from a import b\nexcept ImportError:\n    b = None\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{_FUTURE}x = 1\n", f"{_FUTURE}from a import b\nx = 1\n"),
        ('"""Doc."""\nx = 1\n', '"""Doc."""\nfrom a import b\nx = 1\n'),
        ("# licence\nx = 1\n", "# licence\nfrom a import b\nx = 1\n"),
        ("", "from a import b\n"),
        ("from a import b\nx = 1\n", None),
        (_TRIED, None),
        (_CHECKING + _CHECKED, f"{_CHECKING}from a import b\n{_CHECKED}"),
    ],
)
def test_an_import_is_added_once_and_in_its_place(before: str, after: str | None) -> None:
    edits = "- {id: i, op: add_import, code: from a import b}\n"
    assert made(before, edits) == (before if after is None else after)


def test_an_import_does_not_take_another_things_name() -> None:
    assert "'b' is another thing" in refused(
        "def b(): pass\n", "- {id: i, op: add_import, code: from a import b}\n"
    )


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("x = 1; y = 2\n", "shares its line with what stands after"),
        ("y = 2; x = 1\n", "shares its line with what stands before"),
        ("if a: x = 1\n", "shares its line with what stands before"),
    ],
)
def test_a_statement_that_shares_its_line_is_refused(before: str, said: str) -> None:
    assert said in refused(before, "- {id: a, op: insert_after, at: {statement: x = 1}, code: z()}\n")


def test_an_elif_is_not_a_statement_of_its_own() -> None:
    said = refused(
        "if a:\n    pass\nelif b:\n    pass\n", "- {id: a, op: insert_before, at: {tests: b}, code: z()}\n"
    )
    assert "elif" in said


def test_two_edits_of_one_text_are_refused() -> None:
    edits = """\
    - {id: a, op: replace_expression, at: {expression: f(...)}, code: g()}
    - {id: b, op: add_argument, at: {expression: f(...)}, code: x=1}
    """
    assert "touch the same text" in refused("y = f(1)\n", edits)


def test_upstream_has_it_already() -> None:
    edits = """\
    - {id: a, op: append, absent: [new_way], code: old_way = 1}
    - {id: b, op: insert_after, at: {statement: x = 1}, code: y = 1}
    """
    said = refused("x = 1\ndef new_way(): pass\n", edits)
    assert "the engine has this already: 'new_way' is there" in said


def test_a_late_future_import_does_not_pass_the_gates() -> None:
    edit = "- {id: a, op: insert_after, at: {statement: x = 1}, code: from __future__ import annotations}\n"
    assert "from __future__ imports must occur at the beginning" in refused("x = 1\nimport b\n", edit)
    first = edit.replace("insert_after", "insert_before").replace("x = 1", "import b")
    assert made("import b\nx = 1\n", first) == "from __future__ import annotations\nimport b\nx = 1\n"


@pytest.mark.parametrize(
    ("before", "at", "code", "after"),
    [
        (
            "if a:  # so: it is\n    x()\n",
            "if a: ...",
            "if a and b: ...",
            "if a and b:  # so: it is\n    x()\n",
        ),
        ('if s == "#":\n    x()\n', 'if s == "#": ...', 'if s == "#:": ...', 'if s == "#:":\n    x()\n'),
        ("for a in {1: 2}: x()\n", "for a in {1: 2}: ...", "for a, b in c: ...", "for a, b in c: x()\n"),
        (
            "@d\ndef f(\n    a,\n):\n\n    # why\n    x()\n",
            "@d\ndef f(a): ...",
            "@d(1)\ndef f(\n    a,\n    b,\n): ...",
            "@d(1)\ndef f(\n    a,\n    b,\n):\n\n    # why\n    x()\n",
        ),
        ("class A:\n    def f(self):\n        x()\n", "def f(self): ...", "async def f(self): ...", None),
    ],
)
def test_a_head_is_replaced_up_to_its_colon(before: str, at: str, code: str, after: str | None) -> None:
    edits = f"- {{id: a, op: replace_header, at: {{statement: {at!r}}}, code: {code!r}}}\n"
    edits = edits.replace("'", '"').replace('"if s == "#": ..."', "'if s == \"#\": ...'")
    edits = edits.replace('"if s == "#:": ..."', "'if s == \"#:\": ...'")
    wanted = after or "class A:\n    async def f(self):\n        x()\n"
    assert made(before, edits) == wanted


def test_an_unknown_head_is_never_overwritten() -> None:
    edit = '- {id: a, op: replace_header, at: {statement: "def f(a): ..."}, code: "def f(a, b): ..."}\n'
    assert made("def f(a):\n    x()\n", edit) == "def f(a, b):\n    x()\n"
    assert "matches 0 places" in refused("def f(a, c=1):\n    x()\n", edit)


def test_what_leads_up_to_a_statement_is_replaced_only_where_it_is_known() -> None:
    before = "x = 1\n\n# old\n#  words\ny = 2\n"
    edits = """\
    - id: a
      op: replace_lead
      at: {statement: y = 2}
      was: "\\n# old\\n#  words\\n"
      lines: "# new\\n"
    """
    assert made(before, edits) == "x = 1\n# new\ny = 2\n"
    said = refused(before.replace("words", "other words"), edits)
    assert "are not those that the recipe knows" in said


def test_what_stands_behind_the_last_statement_is_replaced_only_where_it_is_known() -> None:
    edits = "- {id: a, op: replace_tail, was: '# end', lines: '# the end'}\n"
    assert made("x = 1\n# end\n", edits) == "x = 1\n# the end"
    assert made("# end", edits) == "# the end"
    assert "behind the last statement are not those" in refused("x = 1\n# other\n", edits)


def test_a_statement_goes_with_the_comment_that_leads_up_to_it() -> None:
    before = "def f():\n    x = 1\n\n    # about y\n    y = 2\n    return x\n"
    gone = "- {id: a, op: delete_statement, lead: true, at: {statement: y = 2}}\n"
    assert made(before, gone) == "def f():\n    x = 1\n    return x\n"
    other = "- {id: a, op: replace_statement, lead: true, at: {statement: y = 2}, code: z = 3}\n"
    assert made(before, other) == "def f():\n    x = 1\n    z = 3\n    return x\n"
    below = "- {id: a, op: insert_before, below_comment: true, at: {statement: y = 2}, code: z = 3}\n"
    assert made(before, below) == before.replace("    y = 2\n", "    z = 3\n    y = 2\n")


_BRANCHES = """\
def f(a):
    if a:
        x()  # why
    # next
    elif a is None:
        y()
    else:
        z()
"""


def test_a_branch_comes_behind_another_and_goes_with_its_comment() -> None:
    at = "at: {scope: [def f], tests: a, pick: first, count: 2}"
    come = f'- {{id: a, op: add_branch, {at}, code: "elif a == 1:\\n    w()"}}\n'
    assert made(_BRANCHES, come) == _BRANCHES.replace("why\n", "why\n    elif a == 1:\n        w()\n")
    gone = "- {id: a, op: delete_branch, at: {statement: 'if a is None: ...'}}\n"
    assert made(_BRANCHES, gone) == _BRANCHES.replace("    # next\n    elif a is None:\n        y()\n", "")
    last = '- {id: a, op: add_branch, at: {tests: a}, code: "else:\\n    w()"}\n'
    assert made("if a: x()\n", last) == "if a: x()\nelse:\n    w()\n"
    assert "'else' is a last branch" in refused("if a: x()\nelse: y()\n", last)
    assert "is no 'elif'" in refused(_BRANCHES, gone.replace("a is None", "a"))
    assert "is no 'if' or 'elif'" in refused("for b in a: x()\n", last.replace("tests: a", "contains: x()"))


def test_a_name_that_every_branch_binds_is_bound_and_one_that_some_bind_is_not() -> None:
    before = """\
    def f(a):
        if a:
            x = y = 1
        elif a is None:
            raise ValueError
        else:
            x = 2
        with a as b:
            z = 1
        for c in a:
            w = 1
        return x
    """
    edit = (
        "- {{id: a, op: insert_before, at: {{statement: return x, scope: [def f]}}, bound: [{}], code: u()}}"
    )
    for name in ("x", "b", "z", "a"):
        assert "u()" in made(before, edit.format(name))
    for name in ("y", "w", "c"):
        assert f"'{name}' may have no value at this place" in refused(before, edit.format(name))
