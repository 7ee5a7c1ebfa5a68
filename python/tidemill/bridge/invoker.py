"""The bridge as a protocol of one method, for code that needs no session of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Invoker(Protocol):
    """Calls a method of `Bridge` and returns its answer. `tidemill.bridge.jvm.Jvm` implements it."""

    def invoke(self, method: str, request: Mapping[str, Any] | None = None) -> Any: ...
