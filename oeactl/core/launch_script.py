"""A shell script that begins a server, read and never run.

Owns: the little of sh that such scripts are made of: variables, export, cd, activate, line continuation, one
command. Refuses: to guess at the rest; what it cannot follow is named with its line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from oeactl.core.adoption import Adopted, secret_words
from oeactl.core.launch import flag, model_of
from oeactl.core.redact import REDACTED, is_secret_name
from oeactl.errors import UsageError

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::?-([^}]*))?\}|([A-Za-z_]\w*))")
_ENGINES = ("sglang.launch_server", "sglang")
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_IGNORED = ("set", "echo", "mkdir", "sleep", "ulimit", "trap", "exit", "true", ":", "shopt", "umask")
_BEFORE = ("exec", "nohup", "setsid", "env", "time", "command")
_TAKES_PORT = 30000


class _Reading:
    def __init__(self, path: str) -> None:
        self.path = path
        self.folder = path.rpartition("/")[0] or "/"
        self.variables: dict[str, str] = {}
        self.exported: dict[str, str] = {}
        self.python: str | None = None
        self.log: str | None = None
        self.argv: list[str] = []
        self.line = 0
        self.unknown: list[str] = []

    def statement(self, line: int, text: str) -> None:
        try:
            bare = re.sub(r"(?<=\s)[0-2](?=[<>])", "", text)  # of 2>&1; lexed, it could be --tp 2
            lexer = shlex.shlex(bare, posix=True, punctuation_chars=";&|<>")
            lexer.whitespace_split = True
            lexer.commenters = "#"
            words = list(lexer)
        except ValueError as error:
            self.unknown.append(f"line {line}: not followed ({error}): {text[:80]}")
            return
        for one in _commands(words):
            self.command(line, one)

    def command(self, line: int, words: list[str]) -> None:
        words = self._redirected(words)
        expanded = [self._expanded(line, word) for word in words]
        here: dict[str, str] = {}
        while expanded and (_ASSIGNMENT.fullmatch(expanded[0]) or expanded[0] in _BEFORE):
            if expanded[0] not in _BEFORE:
                name, _, value = expanded[0].partition("=")
                here[name] = value
            expanded = expanded[1:]
        if not expanded:
            self.variables.update(here)
            self.exported.update({name: value for name, value in here.items() if name in self.exported})
        elif expanded[0] == "export":
            self._export(expanded[1:])
        elif expanded[0] == "cd" and len(expanded) == 2:
            self.folder = expanded[1] if expanded[1].startswith("/") else f"{self.folder}/{expanded[1]}"
        elif expanded[0] in ("source", ".") and len(expanded) == 2 and expanded[1].endswith("/bin/activate"):
            self.python = expanded[1].removesuffix("activate") + "python"
        elif self._begins_engine(expanded):
            self._engine(line, expanded, here)
        elif expanded[0] not in _IGNORED:
            self.unknown.append(f"line {line}: not followed: {' '.join(words)[:80]}")

    def _export(self, words: list[str]) -> None:
        for word in words:
            name, equals, value = word.partition("=")
            if equals:
                self.variables[name] = value
            self.exported[name] = self.variables.get(name, "")

    def _redirected(self, words: list[str]) -> list[str]:
        """Without ``> file``; the file is the log to be."""
        kept: list[str] = []
        at = 0
        while at < len(words):
            if re.fullmatch(r"[<>&|]*[<>][<>&|]*", words[at]):
                if ">" in words[at] and at + 1 < len(words) and not words[at + 1].isdigit():
                    self.log = self._expanded(0, words[at + 1])
                at += 2
            else:
                kept.append(words[at])
                at += 1
        return kept

    def _expanded(self, line: int, word: str) -> str:
        if "$(" in word or "`" in word or re.search(r"\$[0-9@*#?!]", word):
            self.unknown.append(f"line {line}: its value is not known before it runs: {word[:60]}")
            return word

        def value(match: re.Match[str]) -> str:
            name = match[1] or match[3]
            if name in self.variables:
                return self.variables[name]
            if match[2] is not None:
                return str(match[2])
            self.unknown.append(f"line {line}: ${name} is not set in the script")
            return match[0]

        return _VARIABLE.sub(value, word)

    def _begins_engine(self, words: list[str]) -> bool:
        if _PYTHON.fullmatch(words[0]):
            return "-m" in words and any(word in words for word in _ENGINES)
        return words[0].rpartition("/")[2] == "sglang" and "serve" in words

    def _engine(self, line: int, words: list[str], here: dict[str, str]) -> None:
        if self.line:
            self.unknown.append(f"line {line}: a second server; the one of line {self.line} is taken")
            return
        self.line = line
        self.exported.update(here)
        if _PYTHON.fullmatch(words[0]):
            self.python = words[0] if words[0].startswith("/") else self.python or words[0]
            self.argv = words[1:]
        else:
            beside = words[0].rpartition("/")[0]
            self.python = f"{beside}/python" if beside else self.python or "python3"
            self.argv = ["-m", "sglang.launch_server", *words[words.index("serve") + 1 :]]


def adopt_script(text: str, path: str) -> Adopted:
    """The entry that a script at ``path`` on the host would begin. Raises UsageError where it begins none."""
    reading = _Reading(path)
    for line, statement in _statements(text):
        reading.statement(line, statement)
    if not reading.argv:
        raise UsageError(
            "no command that begins an engine was found in it",
            where=path,
            hint="start it, then adopt what listens: --port N",
        )
    return _entry(reading)


def _entry(reading: _Reading) -> Adopted:
    hidden = [
        word.partition("=")[0]
        for word in reading.argv
        if word.startswith("-") and is_secret_name(word.partition("=")[0])
    ]
    words = [
        REDACTED if before in hidden and not word.startswith("-") else _without(word, hidden)
        for before, word in zip(("", *reading.argv), reading.argv, strict=False)
    ]
    flags = [name for name in hidden if any(REDACTED in word for word in words)]
    argv, names = secret_words(words, flags)
    secrets = [name for name in reading.exported if is_secret_name(name)]
    env = {name: f"${{{name}}}" if name in secrets else value for name, value in reading.exported.items()}
    unknown = list(reading.unknown)
    python = reading.python or "python3"
    if not python.startswith("/"):
        unknown.append(f"engine.python: the script calls {python} by its PATH; write its absolute path")
    number = flag(argv, "--port") or str(_TAKES_PORT)
    server: dict[str, object] = {"url": f"http://127.0.0.1:{number}", "cwd": reading.folder}
    if env:
        server["env"] = env
    server["argv"] = list(argv)
    log = reading.log or ""
    if log.startswith("/dev/") or not log:
        log = f"/var/log/oeactl/server-{number}.log"
        unknown.append(f"server.log: the script writes to no file; {log} was chosen")
    server["log"] = log if log.startswith("/") else f"{reading.folder}/{log}"
    if "--api-key" in names:
        server["api_key_env"] = names["--api-key"]
    unknown.append("server.gpus: the script does not run, so none is seen in use")
    return Adopted(
        entry={"engine": {"python": python}, "server": server},
        learned=(f"{reading.path}, line {reading.line}; read, not run",),
        unknown=tuple(unknown),
        secrets=(*names.values(), *secrets),
        model=model_of(argv),
    )


def _without(word: str, flags: list[str]) -> str:
    name, equals, _ = word.partition("=")
    return f"{name}={REDACTED}" if equals and name in flags else word


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """(line number, statement) with continued lines joined; comments and blank lines left out."""
    waiting, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        begun = begun if waiting else number
        if line.rstrip().endswith("\\") and not line.lstrip().startswith("#"):
            waiting += line.rstrip()[:-1] + " "
            continue
        whole = (waiting + line).strip()
        waiting = ""
        if whole and not whole.startswith("#"):
            yield begun, whole
    if waiting.strip():
        yield begun, waiting.strip()


def _commands(words: list[str]) -> Iterator[list[str]]:
    """Cut at ``;``, ``&``, ``&&``, ``|``; redirections such as ``>&`` and ``2>&1`` stay."""
    part: list[str] = []
    for word in words:
        if word and set(word) <= set(";&|"):
            if part:
                yield part
            part = []
        else:
            part.append(word)
    if part:
        yield part
