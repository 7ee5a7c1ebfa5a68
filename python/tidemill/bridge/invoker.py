"""What code that needs no session asks of the bridge: one call, answered with a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Invoker(Protocol):
    """Calls a method of `Bridge`; `tidemill.bridge.jvm.Jvm` is one."""

    def invoke(self, method: str, request: Mapping[str, Any] | None = None) -> Any: ...
