"""Spark's types, as text that can be hashed and compared, and as parsed JSON."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

DataType: TypeAlias = Any
"""A Spark type as parsed `DataType.json`: a string such as `"long"`, or a mapping for nested types."""


def type_to_text(kind: DataType) -> str:
    """A type as hashable text: primitive names stay as they are, nested types become JSON."""
    return kind if isinstance(kind, str) else json.dumps(kind, sort_keys=True, separators=(",", ":"))


def type_from_text(text: str) -> DataType:
    """The inverse of `type_to_text`."""
    return json.loads(text) if text.startswith("{") else text
