"""What a log says is being waited for, its first error, and its new lines whatever happens to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from oeactl.agent.log import FirstError, Said, Tail, bare, last_lines, said

STAMP = "[2026-01-02 03:04:05 DP0 TP1] "


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01, 1.2it/s]",
            Said("loading weights 50 %", 1, 2, known=True),
        ),
        (
            "Multi-thread loading shards: 100% Completed | 47/47 [00:01<00:00,  1.41it/s]",
            Said("loading weights 100 %", 47, 47, known=True),
        ),
        (
            "Capturing batches (bs=160 avail_mem=10.20 GB):  13%|█▎        | 3/23 [00:04<00:20,  1.0s/it]",
            Said("capturing CUDA graphs 3/23", 3, 23, known=True),
        ),
        (
            "Compiling num tokens (num_tokens=4):  50%|█████ | 5/10 [00:01<00:01]",
            Said("compiling prefill graphs 5/10", 5, 10, known=True),
        ),
        (
            "DeepGEMM warmup:   1%|          | 100/16384 [00:10<10:00]",
            Said("compiling DeepGEMM kernels 100/16384", 100, 16384, known=True),
        ),
    ],
)
def test_a_progress_bar_tells_how_far_it_is(line: str, told: Said) -> None:
    assert said(line) == told


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("server_args={'model_path': '/m', 'api_key': 'x'}", "starting the engine"),
        ("Init torch distributed begin.", "joining torch.distributed"),
        ("Load weight begin. avail mem=20.58 GB", "loading weights"),
        ("Load weight end. elapsed=0.75 s, type=X", "weights loaded"),
        ("KV Cache is allocated. dtype: torch.bfloat16", "allocating the KV cache"),
        ("Capture cuda graph begin. This can take up to several minutes.", "capturing CUDA graphs"),
        ("Capture cuda graph end. Time elapsed: 3.7 s.", "CUDA graphs captured"),
        ("INFO:     Uvicorn running on http://127.0.0.1:1 (Press CTRL+C)", "warming up"),
        ("The server is fired up and ready to roll!", "up, says its log"),
    ],
)
def test_a_phase_of_the_engine_is_told_by_its_name(line: str, phase: str) -> None:
    assert said(STAMP + line) == Said(phase, known=True)


def test_a_bar_without_a_name_continues_what_was_told() -> None:
    line = "  4%|▍         | 1/23 [00:00<00:10]"
    told = said(line, before="capturing CUDA graphs 0/23")
    assert told is not None and told.text == "capturing CUDA graphs 1/23"


def test_any_other_line_is_told_short_and_without_its_stamp() -> None:
    told = said(STAMP + "x" * 300)
    assert told == Said("x" * 99 + "…")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "  warnings.warn(",
        "/v/awq.py:53: UserWarning: Only CUDA",
        STAMP + "Ignore import error when loading x: No module named 'vllm'",
        STAMP + 'INFO:     127.0.0.1:5 - "GET /ready HTTP/1.1" 503 Service Unavailable',
    ],
)
def test_noise_is_not_told(line: str) -> None:
    assert said(line) is None


@pytest.mark.parametrize(
    "stamp",
    [STAMP, "[2026-01-02 03:04:05] ", "2026-01-02 03:04:05,123 ", "\x1b[36m(EngineCore pid=5)\x1b[0m "],
)
def test_stamps_of_all_kinds_come_off(stamp: str) -> None:
    assert bare(stamp + "words") == "words"


def first(text: str) -> str | None:
    reader = FirstError()
    for line in text.splitlines():
        reader.feed(line)
    return reader.found.line if reader.found else None


TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n'


def test_of_chained_tracebacks_the_root_is_the_first_error() -> None:
    text = (
        TRACEBACK
        + "KeyError: 'a'\n\nThe above exception was the direct cause:\n\n"
        + TRACEBACK
        + "RuntimeError: b\n"
    )
    assert first(text) == "KeyError: 'a'"


def test_out_of_memory_is_surer_than_an_earlier_exception() -> None:
    text = (
        TRACEBACK
        + "ValueError: handled\n"
        + TRACEBACK
        + "torch.OutOfMemoryError: CUDA out of memory. Tried\n"
    )
    assert first(text) == "torch.OutOfMemoryError: CUDA out of memory. Tried"


def test_a_stamped_line_within_a_traceback_does_not_end_it() -> None:
    text = TRACEBACK + STAMP + "another thread\n" + "ImportError: cannot import name 'x'\n"
    assert first(text) == "ImportError: cannot import name 'x'"


@pytest.mark.parametrize(
    "line",
    [
        "sglang serve: error: unrecognized arguments: --bogus",
        "launch_server.py: error: argument --tp: invalid int value: 'x'",
        "/v/bin/python: No module named sglang",
        "/v/bin/python: can't open file '/x.py': [Errno 2] No such file or directory",
        "ERROR:    [Errno 98] error while attempting to bind on ('127.0.0.1', 1): address already in use",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "Fatal Python error: Segmentation fault",
    ],
)
def test_errors_without_a_traceback_are_found(line: str) -> None:
    assert first("fine\n" + line + "\nmore\n") == line


def test_what_an_engine_ignores_is_no_error() -> None:
    text = STAMP + "Ignore import error when loading x: No module named 'vllm'\n"
    text += STAMP + "OpenAI Responses API disabled: init failed (ModuleNotFoundError: No module named 'h')\n"
    assert first(text) is None


def test_a_line_comes_when_it_is_whole_and_bars_are_cut_at_returns(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(str(path))
    assert tail.read() == []
    path.write_bytes(b"a 1%\ra 2%\rwhole\nha")
    assert tail.read() == ["a 1%", "a 2%", "whole"]
    with path.open("ab") as file:
        file.write("lf\r\ncaf\N{LATIN SMALL LETTER E WITH ACUTE}\n".encode())
    assert tail.read() == ["half", "café"]
    assert tail.finish() == []
    tail.close()


def test_a_character_cut_in_two_by_a_write_is_whole_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(str(path))
    path.write_bytes(b"caf\xc3")
    assert tail.read() == []
    with path.open("ab") as file:
        file.write(b"\xa9\n")
    assert tail.read() == ["café"]
    tail.close()


def test_a_replaced_file_is_read_to_its_end_and_then_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\n")
    tail = Tail(str(path))
    assert tail.read() == ["old"]
    with path.open("a") as file:
        file.write("last of old\n")
    path.rename(tmp_path / "log.1")
    path.write_text("new and longer than before\n")
    assert tail.read() == ["last of old", "new and longer than before"]
    tail.close()


def test_a_truncated_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a long first line\n")
    tail = Tail(str(path))
    tail.read()
    path.write_text("short\n")
    assert tail.read() == ["short"]
    tail.close()


def test_last_lines_begin_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"{n} {'x' * 90}\n" for n in range(5000)))
    lines = last_lines(str(path), 3)
    assert [line.split()[0] for line in lines] == ["4997", "4998", "4999"]
    assert all(line.split()[0].isdigit() for line in last_lines(str(path), 5000))
    assert last_lines(str(tmp_path / "none"), 3) == []
    assert last_lines(str(path), 0) == []
