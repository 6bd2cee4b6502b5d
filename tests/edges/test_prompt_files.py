"""A user's prompts are read as they are, or refused by file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oeactl.edges.prompt_files import read_prompts
from oeactl.errors import UsageError


def written(folder: Path, *entries: Any, whole: bool = False) -> Path:
    path = folder / "mine.jsonl"
    path.write_text(
        json.dumps(entries) if whole else "\n".join(json.dumps(entry) for entry in entries) + "\n\n"
    )
    return path


def test_lines_of_text_ids_and_messages(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "c"}]
    path = written(tmp_path, {"prompt": "a", "output_len": 5}, {"prompt": [1, 2]}, {"messages": messages})
    found = read_prompts(path)
    assert found.prompts == (("a", 5), ([1, 2], None), (messages, None))
    assert found.name == "mine.jsonl"


def test_a_file_in_the_form_of_sharegpt_gives_its_first_human_turns(tmp_path: Path) -> None:
    turns = [{"from": "system", "value": "s"}, {"from": "human", "value": "h"}, {"from": "gpt", "value": "g"}]
    path = written(tmp_path, {"id": "1", "conversations": turns}, {"conversations": []}, whole=True)
    assert read_prompts(path).prompts == (("h", None),)


def test_sharegpt_may_come_a_line_each_and_by_either_name(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "h"}]
    path = written(tmp_path, {"conversations": turns}, {"conversation": turns}, {"conversations": []})
    assert read_prompts(path).prompts == (("h", None), ("h", None))


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"conversations": "hello"}, "no list of turns"),
        ({"conversations": ["hello"]}, "no list of turns"),
        ({"text": "a"}, "no prompt is in it"),
        ({"prompt": ""}, "no prompt is in it"),
        ({"prompt": [1, -2]}, "no prompt is in it"),
        ({"prompt": "a", "output_len": 0}, "output_len 0 is not"),
        (["a"], "not an object"),
    ],
)
def test_a_line_that_is_no_prompt_is_named(tmp_path: Path, entry: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        read_prompts(written(tmp_path, {"prompt": "a"}, entry))
    assert refused.value.where is not None and refused.value.where.endswith("mine.jsonl:2")


def test_what_is_no_json_or_holds_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for text, says in (("{", "not JSON"), ("[", "not JSON"), ("", "no prompt"), ("[]", "no prompt")):
        path.write_text(text)
        with pytest.raises(UsageError, match=says):
            read_prompts(path)
