"""The record of what an arm changes: one difference of the whole build, that makes the very bytes again."""

from __future__ import annotations

import msgspec

from oeactl.core.change import Change, change_between
from oeactl.core.difference import applied, read_difference
from oeactl.core.host import Survey
from oeactl.core.results import dump, parse
from tests.support.recipes import MODULE
from tests.support.site_world import PRISTINE, a_recipe
from tests.support.surveys import sha256, survey_of

AFTER = PRISTINE.replace(b"x = 1\n", b"x = 1\ny = 4\n")


def changed(before: bytes | None, after: bytes | None) -> Change:
    return change_between(looked(before), looked(after), run_id="r", arm="B", recipes=(a_recipe(),))


def looked(data: bytes | None) -> Survey:
    survey = survey_of({MODULE: data or b""})
    (file,) = survey.files
    state = msgspec.structs.replace(
        file, data=data, missing=data is None, sha256="" if data is None else sha256(data)
    )
    return msgspec.structs.replace(survey, files=(state,))


def test_the_difference_makes_the_very_bytes_and_names_both_hashes() -> None:
    change = changed(PRISTINE, AFTER)
    (file,) = change.files
    assert (file.before_sha256, file.after_sha256) == (sha256(PRISTINE), sha256(AFTER))
    (difference,) = read_difference(change.diff.encode(), "x")
    assert difference.name.endswith(file.path) and not file.path.startswith("/")
    assert applied(PRISTINE, difference.hunks) == AFTER


def test_a_new_file_has_no_hash_before() -> None:
    (file,) = changed(None, AFTER).files
    assert (file.before_sha256, file.after_sha256) == ("", sha256(AFTER))


def test_what_is_the_same_is_no_change() -> None:
    change = changed(PRISTINE, PRISTINE)
    assert (change.files, change.diff) == ((), "")


def test_the_recipes_folder_comes_back_byte_for_byte() -> None:
    recipe = a_recipe()
    change = parse(dump(changed(PRISTINE, AFTER)), Change)
    (copy,) = change.recipes
    assert copy.files == recipe.sources and "recipe.yaml" in copy.files
    assert copy.computes is None
