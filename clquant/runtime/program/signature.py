"""The names of kernels' arguments, read from their source."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_OBJECT_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.*)$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)
_NAME = re.compile(r"(\w+)\s*(?:\[\w*\])?\s*$")
_AMBIGUOUS = "?"
_DEEPEST = 8  # macros within macros


def argument_places(source: str, kernel: str) -> dict[str, int]:
    """Where each argument of a kernel stands.

    Parameters
    ----------
    source : str
        With its includes; macros may stand for several arguments. Arguments within ``#if`` are taken as given.
        Of a macro that is defined in more than one way, nobody knows here which one holds: what stands behind it in the
        signature is not found.
    kernel : str

    Returns
    -------
    dict of str to int
        Empty where the source has no such kernel as text: names made by macros are not found.
    """
    text = _COMMENT.sub(" ", source.replace("\\\n", " "))
    found = re.search(rf"\bkernel\b[^;{{}}]*?\bvoid\s+{kernel}\s*\(", text.replace("__kernel", "kernel"))
    if found is None:
        return {}
    begin = found.end()
    text = text.replace("__kernel", "kernel")
    macros: dict[str, str] = {}
    for macro, meaning in _OBJECT_MACRO.findall(text[:begin]):
        macros[macro] = meaning if macros.get(macro, meaning) == meaning else _AMBIGUOUS
    names = []
    arguments = _DIRECTIVE.sub(" ", text[begin : _closing(text, begin)])
    for part in _split(_expanded(arguments, macros)):
        if _AMBIGUOUS in part:
            break
        last = _NAME.search(part)
        names.append(last[1] if last else "")
    return {name: place for place, name in enumerate(names)}


def _closing(text: str, begin: int) -> int:
    """Where the parenthesis ends that was opened before."""
    depth = 1
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def _expanded(arguments: str, macros: dict[str, str]) -> str:
    for _ in range(_DEEPEST):
        before = arguments
        arguments = re.sub(r"\b\w+\b", lambda word: macros.get(word[0], word[0]), arguments)
        if arguments == before:
            break
    return arguments


def _split(arguments: str) -> list[str]:
    """Arguments between commas that stand in no parentheses."""
    parts, depth = [""], 0
    for character in arguments:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts
