"""The planner's process, which waits for Ctrl-C before each commit as long as there is a file `wait` in its folder.

It says that it waits by a file `waits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from tests.faults.checks import wait_for
from tidemill.bridge.jvm import Jvm
from tidemill.driver import process

invoke = Jvm.invoke


def waiting(jvm: Jvm, method: str, request: Mapping[str, Any] | None = None) -> Any:
    if Path("wait").exists() and method == "files" and (request or {}).get("do") == "write_new":
        Path("waits").touch()
        wait_for(jvm._interrupted, "Ctrl-C")
    return invoke(jvm, method, request)


if __name__ == "__main__":
    with mock.patch.object(Jvm, "invoke", waiting):
        process.main()
