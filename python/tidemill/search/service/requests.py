"""Requests to the planner as files: written where a user's run is planned, replayed by developers.

A file holds names of tables and columns, types, paths of tables, expressions as in the query (with its literals),
numbers of rows, bytes and files, and settings without values that may be secrets. It holds no values from tables, and
no `measured`, which is a function that only experiments have.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tidemill.search.contract.request import PlanRequest
from tidemill.search.runs.task import PlanningTask
from tidemill.search.service.messages import request_from_json, request_to_json
from tidemill.search.space.seed import candidates
from tidemill.search.space.space import normal_query
from tidemill.version import __version__

FORMAT = "tidemill planning request 1"
_SETTING = re.compile(r"^(spark\.sql\.[^=\n]*)=(.*?)(?=\nspark\.sql\.|\Z)", re.DOTALL | re.MULTILINE)
_MAY_BE_SECRET = re.compile(
    r"spark\.sql\.catalog\.[^.]+\..*|.*(secret|password|token|access[._]?key|credential).*", re.IGNORECASE
)
"""Names of captured settings that may hold secrets: options of catalogs, and names that sound like a secret."""
_LOG = logging.getLogger("tidemill")


class NoRequestError(Exception):
    """A file that is not a request, or one of another version."""


def write_request(folder: str, name: str, request: PlanRequest) -> None:
    """Writes a request to a new file of a folder, which is created if needed.

    The file's name is the time in UTC, then `name`. A failure is logged as a warning.
    """
    try:
        now = time.time_ns()
        stamp = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now // 10**9))}.{now % 10**9:09}"
        text = _text(request)
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / f"{stamp}-{re.sub(r'[^A-Za-z0-9_.-]', '_', name)[:150]}.json"
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except Exception as error:  # a failure to write must not stop the run
        _LOG.warning("Tidemill: the planning request was not written to %s: %s", folder, error)


def _text(request: PlanRequest) -> str:
    """The content of a request's file."""
    told = replace(request, meaning=without_secrets(request.meaning))
    text = json.dumps(_document(told), ensure_ascii=False, indent=1) + "\n"
    if told.meaning != request.meaning and (request.states or request.stored):
        for name, other in _renamed(request, told.meaning).items():
            text = text.replace(f'"{name}"', f'"{other}"')
    return text


def without_secrets(meaning: str) -> str:
    """Captured settings without the values of those that may be secrets.

    >>> without_secrets("spark.sql.ansi.enabled=true\\nspark.sql.catalog.c=C\\nspark.sql.catalog.c.url=x=y\\nz")
    'spark.sql.ansi.enabled=true\\nspark.sql.catalog.c=C\\nspark.sql.catalog.c.url='
    """
    return _SETTING.sub(lambda found: f"{found[1]}=" if _MAY_BE_SECRET.fullmatch(found[1]) else found[0], meaning)


def _renamed(request: PlanRequest, meaning: str) -> dict[str, str]:
    """Maps names of states and groups of parts, which are digests, to those under other captured settings."""
    task = PlanningTask(replace(request, query=normal_query(request.query)))
    space = task.space(request.steps, task.kept())
    others = {(c.tvr, c.kind): c for c in candidates(space.memo, space.root, meaning)}
    both = [(c, others[c.tvr, c.kind]) for c in space.candidates]
    return {name: new for c, o in both for name, new in ((c.name, o.name), (c.group, o.group)) if name}


def _document(request: PlanRequest) -> dict[str, Any]:
    """The JSON of a request, with no local paths but those of the user's packs, and with the measured constants."""
    settings, constants = request.settings, None
    if settings.cost_constants:
        measured = json.loads(Path(settings.cost_constants).read_text(encoding="utf-8"))
        constants = {key: measured[key] for key in ("format", "model", "constants")}
    told = replace(request, settings=replace(settings, cost_constants="", debug_requests=""))
    return {"format": FORMAT, "version": __version__, "request": request_to_json(told), "constants": constants}


@contextmanager
def read_request(path: Path) -> Iterator[PlanRequest]:
    """Yields the request in a file; its files exist as long as the context is open.

    Raises:
        NoRequestError: if the file does not hold a request.
        OSError: if it cannot be read.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise NoRequestError(f"this is no file of the format {FORMAT!r}")
        request = request_from_json(document["request"])
        constants = document["constants"]
    except (ValueError, LookupError, TypeError, ExceptionGroup) as error:
        raise NoRequestError(f"no request can be read from it: {error}") from error
    with TemporaryDirectory(prefix="tidemill-") as folder:
        if constants is not None:
            file = Path(folder) / "constants.json"
            file.write_text(json.dumps(constants), encoding="utf-8")
            request = replace(request, settings=replace(request.settings, cost_constants=str(file)))
        yield request
