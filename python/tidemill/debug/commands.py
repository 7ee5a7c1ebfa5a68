"""`tidemill debug`: what the optimiser does with the blocks of a file, or with a request that a user has sent.

tidemill debug rule [NAME] FILE   the forms and links that a rule yields (without NAME: the rule that the file is named
                                  after)
tidemill debug explore FILE       every form of every relation, and every way to compute it
tidemill debug plan FILE          the plan: steps, states, costs, alternatives
tidemill debug steps FILE         every firing of a rule in order, what the search tried, and the plan
tidemill debug replay FILE        the plan of a request out of the folder spark.tidemill.debug.requests

FILE holds blocks as tests/rules/*.txt do; FILE:LINE is the block at that line, - the standard input.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tidemill.debug import wire_plan
from tidemill.debug.blocks import FLAGS, Block, BlockError, read_blocks, request_of
from tidemill.debug.forms import forms
from tidemill.debug.trace import Counts, Trace
from tidemill.errors import TidemillError
from tidemill.explain import explained
from tidemill.memo.events import Reader
from tidemill.rule.engine import RuleFailedError
from tidemill.rule.pack import RuleLoadError
from tidemill.search.contract.request import PlanRequest
from tidemill.search.service.planner import plan_run
from tidemill.search.service.requests import NoRequestError, read_request

COMMANDS = ("rule", "explore", "plan", "steps", "replay")
STDIN = "-"
SAID = (BlockError, NoRequestError, RuleLoadError, RuleFailedError, TidemillError, OSError)
"""Errors whose message suffices, without a stack trace."""


def debug(argv: Sequence[str]) -> int:
    """Runs a command; returns its exit status."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="tidemill debug",
        description=__doc__.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of these; COMMAND --help says more")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    told = parser.parse_args(argv)
    arguments = _parser(told.command).parse_intermixed_args(told.rest)  # NAME is optional, wherever options are
    try:
        if told.command == "replay":
            _replay(arguments)
        else:
            _perform(told.command, arguments)
    except SAID as error:
        print(f"tidemill debug: {arguments.file}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser(command: str) -> argparse.ArgumentParser:
    """The parser of a command's arguments."""
    parser = argparse.ArgumentParser(prog=f"tidemill debug {command}", allow_abbrev=False)
    if command == "rule":
        parser.add_argument("name", nargs="?", help="the rule; the one that the file is named after unless given")
    parser.add_argument("file", help="a request" if command == "replay" else "blocks; FILE:LINE for one of them")
    for flag in ("disable", "prefer", "rules") if command == "replay" else FLAGS:
        if flag == "first":
            parser.add_argument("--first", action="append_const", const="", help=FLAGS[flag])
        else:
            parser.add_argument(f"--{flag}", action="append", metavar="X", help=FLAGS[flag])
    parser.add_argument("--counts", action="store_true", help="what each rule did (with every firing: always)")
    if command in {"plan", "replay"}:
        parser.add_argument("--memo", action="store_true", help="the space that was searched, with costs")
    if command == "replay":
        parser.add_argument("--steps", action="store_true", help="every firing, as `steps` shows them")
    return parser


def _perform(command: str, arguments: argparse.Namespace) -> None:
    """Performs a command on each block of a file, whatever the block's own command is."""
    told = [(flag, value) for flag in FLAGS for value in getattr(arguments, flag) or ()]
    path, blocks = _blocks(arguments.file)
    for number, block in enumerate(blocks):
        if number:
            print()
        if len(blocks) > 1:
            print(f"# {path}:{block.line}")
        _show(command, arguments, block.told(told), Path(path).stem)


def _blocks(file: str) -> tuple[str, list[Block]]:
    """The blocks that a command is about, and the name of their file."""
    if file == STDIN:
        return STDIN, read_blocks(sys.stdin.read())
    one = re.fullmatch(r"(.+):(\d+)", file)
    path = one[1] if one else file
    blocks = read_blocks(Path(path).read_text(encoding="utf-8"))
    if one:
        # Any line of the block will do: an editor shows the cursor's.
        blocks = [b for b in blocks if b.line <= int(one[2])][-1:]
    if not blocks:
        raise BlockError("there is no block")
    return path, blocks


def _show(command: str, arguments: argparse.Namespace, block: Block, stem: str) -> None:
    counts = Counts()
    readers: list[Reader] = [counts] if arguments.counts else []
    match command:
        case "rule" | "explore":
            rule = (arguments.name or stem) if command == "rule" else ""
            print(forms(block, rule, readers) or f"{rule} yields nothing")
            if arguments.counts:
                _print([""], counts.table())
        case _:
            steps = command == "steps"
            request = request_of(block)
            memo = not steps and arguments.memo
            _plan(request, counts=steps or arguments.counts, steps=steps, memo=memo, named=steps)


def _plan(request: PlanRequest, *, counts: bool, steps: bool, memo: bool, named: bool = False) -> None:
    """Plans a request and prints the plan; `named`: states by their own names, not by numbers."""
    counted, trace = Counts(), Trace(print)
    plan = plan_run(request, [*([counted] if counts else []), *([trace] if steps else [])])
    trace.ended = True  # showing alternatives plans them too, in spaces of their own
    table = list(counted.table())
    if steps:
        print()
    text = wire_plan.steps(plan)
    print(text if named else wire_plan.numbered(text, plan, request.states))
    _print(wire_plan.costs(plan))
    if memo:
        _print([""], [explained(plan, "MEMO")])
    if counts:
        _print([""], table)


def _replay(arguments: argparse.Namespace) -> None:
    """Plans a recorded request again, with the packs found here."""
    with read_request(Path(arguments.file)) as request:
        settings = request.settings
        off = {pack for value in arguments.disable or () for pack in value.split(",")}
        here = tuple(arguments.rules or filter(_is_here, settings.rules_paths))
        packs = (settings.packs | {Path(folder).name for folder in arguments.rules or ()}) - off
        prefer = next(iter(arguments.prefer or ()), settings.prefer)
        settings = replace(settings, packs=packs, prefer=prefer, rules_paths=here)
        _plan(
            replace(request, settings=settings),
            counts=arguments.counts or arguments.steps,
            steps=arguments.steps,
            memo=arguments.memo,
            named=True,
        )


def _is_here(folder: str) -> bool:
    """True if a folder of rules named by the request exists; prints a note if it does not."""
    if there := Path(folder).is_dir():
        return there
    print(f"tidemill debug: planned without the rules of {folder}, which is not here (--rules FOLDER)", file=sys.stderr)
    return False


def _print(*parts: Iterator[str] | Sequence[str]) -> None:
    for part in parts:
        for line in part:
            print(line)
