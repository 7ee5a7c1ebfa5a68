"""The worker process that searches for plans: `python -m tidemill.search.service.worker`, started by `SearchWorker`.

It reads requests and writes answers, each a line of JSON, until its standard input ends. Output that rules print goes
to the standard error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO, Any

from tidemill.search.service.messages import plan_to_json, request_from_json
from tidemill.search.service.planner import plan_run


def main() -> None:
    """Serves requests until the standard input ends."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        serve(sys.stdin, answers)


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answers each line by the plan or by an error message; then the caller searches by itself."""
    for line in requests:
        try:
            answer: dict[str, Any] = {"plan": plan_to_json(plan_run(request_from_json(json.loads(line))))}
        except Exception as e:
            answer = {"failed": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
