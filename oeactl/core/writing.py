"""Plain values as YAML that a person would have written: code as blocks, short lists on a line.

Owns: that style. Refuses: types of ours.
"""

from __future__ import annotations

from typing import Any

_LINE = 76


def to_yaml(value: dict[str, Any]) -> str:
    """The text of a mapping, keys in their order."""
    import yaml

    class Writer(yaml.SafeDumper):
        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def text(writer: Any, data: str) -> Any:
        return writer.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)

    def sequence(writer: Any, data: list[Any]) -> Any:
        plain = all(isinstance(item, str | int | float) and "\n" not in str(item) for item in data)
        short = plain and sum(len(str(item)) + 2 for item in data) < _LINE
        return writer.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=short)

    Writer.add_representer(str, text)
    Writer.add_representer(list, sequence)
    made = yaml.dump(value, Dumper=Writer, sort_keys=False, allow_unicode=True, width=1000)
    assert isinstance(made, str)
    return made
