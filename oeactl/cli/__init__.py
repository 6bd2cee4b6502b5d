"""A thin module a command: parse, call one flow, render."""
