"""Makes docs/python.md from the docstrings: `python docs/python_page.py > docs/python.md`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import tidemill

HEAD = """# Python API

<!-- generated: python docs/python_page.py > docs/python.md -->

Everything below is in the package `tidemill`. Each call runs one of the [statements](statements.md), so that both can
be mixed. All of it works with a classic session and with a session of Spark Connect, except `configure`, which is for
the start of an application, and `run_once`, which needs the driver.

```python
import tidemill
from pyspark.sql import SparkSession

spark = tidemill.configure(SparkSession.builder.enableHiveSupport()).getOrCreate()
view = tidemill.create_incremental_view(spark, "summary", "SELECT cat, sum(price) AS gross FROM sales GROUP BY cat")
view.refresh()
view.toDF().show()
```
"""
FUNCTIONS = (
    tidemill.configure,
    tidemill.create_incremental_view,
    tidemill.refresh_incremental_views,
    tidemill.on_demand,
    tidemill.at,
    tidemill.every,
    tidemill.cron,
    tidemill.on_change,
    tidemill.at_progress,
    tidemill.run_once,
    tidemill.expected,
    tidemill.complete,
)


def page() -> str:
    """Returns the text of docs/python.md."""
    lines = [HEAD, "## Functions", "", *(line for function in FUNCTIONS for line in entry(function))]
    lines += ["## IncrementalView", "", text(tidemill.IncrementalView), ""]
    for name, member in vars(tidemill.IncrementalView).items():
        if not name.startswith("_"):
            lines += entry(getattr(member, "__func__", member), isinstance(member, classmethod))
    lines += ["## Monitor", "", *entry(tidemill.Monitor), "See [monitoring.md](monitoring.md).", ""]
    return "\n".join(lines).rstrip() + "\n"


def entry(function: Callable[..., Any], of_class: bool = False) -> Iterator[str]:
    """Yields the lines about a function."""
    name = function.__name__
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    given = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature.replace(parameters=parameters)))
    given = given.replace("builtins.", "")
    yield from (f"### {name}", "", "```python", *wrapped(f"{'IncrementalView.' * of_class}{name}{given}"), "```", "")
    yield from (text(function), "")


def wrapped(signature: str) -> list[str]:
    """Returns a signature on one line if it fits, else with a line per parameter."""
    if len(signature) <= 100:
        return [signature]
    head, _, rest = signature.partition("(")
    inner, _, tail = rest.rpartition(")")
    parameters = re.split(r", (?=\w+:|\*)", inner)
    return [f"{head}(", *(f"    {parameter}," for parameter in parameters), f"){tail}"]


def text(thing: object) -> str:
    """Returns the docstring of a thing."""
    return inspect.getdoc(thing) or ""


if __name__ == "__main__":
    print(page(), end="")
