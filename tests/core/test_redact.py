"""Secrets go, whatever merely looks alike stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oeactl.core.redact import REDACTED, is_secret_name, redact, redact_text


@pytest.mark.parametrize(
    "name",
    ["api_key", "apikey", "API_KEY", "hf_token", "HF_TOKEN", "adminApiKey", "ssl_keyfile_password", "token",
     "client-secret", "OPENAI_API_KEY", "admin_api_key"],
)  # fmt: skip
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer_path",
        "tokenizer_mode",
        "skip_tokenizer_init",
        "monkey",
        "keyboard",
        "detokenizer_worker_num",
        "--max-total-tokens",
        "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK",
    ],
)
def test_names_that_look_alike_are_not(name: str) -> None:
    assert not is_secret_name(name)


def test_server_info_loses_its_secrets_and_nothing_else() -> None:
    info = {
        "api_key": "sk-1",
        "admin_api_key": None,
        "launch_command": "sglang serve --api-key sk-1 --hf-token='hf 2' --max-total-tokens 65536",
        "max_total_tokens": 65536,
        "bos_token_id": 1,
        "tokenizer_path": "/m",
        "argv": ["--api-key", "sk-1", "--tp", "8", "--max-total-tokens", "65536"],
        "internal_states": [{"env": {"HF_TOKEN": "hf_1", "PATH": "/bin"}}],
        "keys": ["a", "b"],
        "ratio": 0.5,
    }
    assert redact(info) == {
        "api_key": REDACTED,
        "admin_api_key": None,
        "launch_command": f"sglang serve --api-key {REDACTED} --hf-token={REDACTED} --max-total-tokens 65536",
        "max_total_tokens": 65536,
        "bos_token_id": 1,
        "tokenizer_path": "/m",
        "argv": ["--api-key", REDACTED, "--tp", "8", "--max-total-tokens", "65536"],
        "internal_states": [{"env": {"HF_TOKEN": REDACTED, "PATH": "/bin"}}],
        "keys": [REDACTED, REDACTED],
        "ratio": 0.5,
    }


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "server_args={'a': 1, 'api_key': 'sk-1', 'b': 2}",
            f"server_args={{'a': 1, 'api_key': {REDACTED}, 'b': 2}}",
        ),
        ("ServerArgs(api_key='sk-1', tp=2)", f"ServerArgs(api_key={REDACTED}, tp=2)"),
        ("Authorization: Bearer sk-1", f"Authorization: Bearer {REDACTED}"),
        ("HF_TOKEN=hf_1 python x", f"HF_TOKEN={REDACTED} python x"),
        ("ServerArgs(api_key=None)", "ServerArgs(api_key=None)"),
        (
            "#new-token: 20, #cached-token: 0, token usage: 0.00",
            "#new-token: 20, #cached-token: 0, token usage: 0.00",
        ),
        ("--tokenizer-path /m --max-prefill-tokens 5", "--tokenizer-path /m --max-prefill-tokens 5"),
    ],
)
def test_secrets_within_text_go(text: str, kept: str) -> None:
    assert redact_text(text) == kept


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_twice_is_once(value: object) -> None:
    assert redact(redact(value)) == redact(value)


@given(st.text(alphabet="abcXYZ0189-_./+=", min_size=4))
def test_no_value_of_a_secret_flag_survives(secret: str) -> None:
    secret = "s3" + secret
    for text in (
        f"--api-key {secret} --x",
        f"--api-key={secret}",
        f"'api_key': '{secret}'",
        f"API_KEY={secret}",
    ):
        assert secret not in redact_text(text)
