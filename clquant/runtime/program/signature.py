"""The names of kernels' arguments, read from their source."""

from __future__ import annotations

import re
from functools import lru_cache

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)[ \t]*(.*)$", re.MULTILINE)
_OBJECT_MACRO = re.compile(r"(\w+)(?:[ \t]+(.*)|$)")
_DEFINED = re.compile(r"\bdefined[ \t]*(?:\([ \t]*(\w+)[ \t]*\)|(\w+))")
_NUMBER = re.compile(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]*\b")
_NAME = re.compile(r"(\w+)\s*(?:\[\w*\])?\s*$")
_AMBIGUOUS = "?"
_DEEPEST = 8  # macros within macros
_PYTHON = (("&&", " and "), ("||", " or "), (r"!=", "\0"), ("!", " not "), ("\0", "!="), ("/", "//"))


def argument_places(source: str, kernel: str) -> dict[str, int]:
    """Where each argument of a kernel stands.

    Parameters
    ----------
    source : str
        With its includes and the ``#define`` of its constants; macros may stand for several arguments.
    kernel : str

    Returns
    -------
    dict of str to int
        Empty where the source has no such kernel as text: names made by macros are not found.
    """
    text, macros = _preprocessed(source)
    found = re.search(rf"\bkernel\b[^;{{}}]*?\bvoid\s+{kernel}\s*\(", text)
    if found is None:
        return {}
    begin = found.end()
    names = []
    for part in _split(_expanded(text[begin : _closing(text, begin)], macros)):
        last = _NAME.search(part)
        names.append(last[1] if last else "")
    return {name: place for place, name in enumerate(names)}


@lru_cache(maxsize=8)
def _preprocessed(source: str) -> tuple[str, dict[str, str]]:
    """What a compiler takes, without comments and directives; macros without parameters."""
    text = _COMMENT.sub(" ", source.replace("\\\n", " ")).replace("__kernel", "kernel")
    macros: dict[str, str] = {}
    parts: list[str] = []
    taken: list[tuple[bool, bool]] = []  # of each open #if: whether its lines are taken now, and whether any were
    begin = 0
    for directive in _DIRECTIVE.finditer(text):
        word, rest = directive.groups()
        if all(now for now, _ in taken):
            parts.append(text[begin : directive.start()])
        begin = directive.end()
        if word in ("if", "ifdef", "ifndef"):
            condition = {"if": rest, "ifdef": f"defined({rest})", "ifndef": f"!defined({rest})"}[word]
            holds = all(now for now, _ in taken) and _holds(condition, macros)
            taken.append((holds, holds))
        elif word in ("elif", "else"):
            before = taken.pop()[1]
            holds = not before and all(now for now, _ in taken) and (word == "else" or _holds(rest, macros))
            taken.append((holds, before or holds))
        elif word == "endif":
            taken.pop()
        elif word == "define" and all(now for now, _ in taken):
            macro = _OBJECT_MACRO.fullmatch(rest.strip())
            if macro:
                macros[macro[1]] = macro[2] or ""
    return "".join([*parts, text[begin:]]), macros


def _holds(condition: str, macros: dict[str, str]) -> bool:
    """The value of an ``#if``, in which names that are no macros are 0, as in C."""
    condition = _DEFINED.sub(lambda name: str(int((name[1] or name[2]) in macros)), condition)
    condition = _NUMBER.sub(r"\1", re.sub(r"\b[A-Za-z_]\w*", "0", _expanded(condition, macros)))
    for sign, word in _PYTHON:
        condition = condition.replace(sign, word)
    return bool(eval(condition.strip(), {"__builtins__": {}}))  # of numbers and operators: no name is left in it


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
        arguments = re.sub(r"\b[A-Za-z_]\w*", lambda word: macros.get(word[0], word[0]), arguments)
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
