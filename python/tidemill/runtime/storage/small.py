"""Reads the small JSON files of a view, all in one place: a damaged one is a condition, or costs only itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from tidemill.errors import TidemillError

T = TypeVar("T")
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, OverflowError, RecursionError)
"""The errors of a decoder on text that no version of Tidemill has written."""


class DamagedError(TidemillError):
    """TIDEMILL_FILE_DAMAGED: a file without which the statement cannot go on."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__("TIDEMILL_FILE_DAMAGED", {"file": path, "reason": reason})


class UnknownFormatError(ValueError):
    """A file of a format that this version does not know, which is no damage. The text says so."""


def decoded(path: str, text: str | None, decode: Callable[[Any], T]) -> T:
    """Returns what `decode` makes of the JSON in a file. Raises DamagedError; also if `text` is None: it is gone."""
    if text is None:
        raise DamagedError(path, "it is gone")
    try:
        return decode(json.loads(text))
    except UnknownFormatError as error:
        raise DamagedError(path, str(error)) from error
    except _DAMAGE as error:
        raise DamagedError(path, _told(text, error)) from error


def readable(text: str | None, decode: Callable[[Any], T]) -> T | None:
    """Returns what `decode` makes of the JSON in a file that can be left out; None if it is damaged or gone."""
    try:
        return decoded("", text, decode)
    except DamagedError:
        return None


def _told(text: str, error: BaseException) -> str:
    if not text.strip():
        return "it is empty, or no text"
    if isinstance(error, json.JSONDecodeError):
        return f"it is no whole JSON ({error.msg} at character {error.pos} of {len(text)})"
    return f"its content is not what was written ({type(error).__name__}: {error})"
