"""`tidemill debug` over blocks: what each command prints, how it is told other flags, and what it refuses."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemill import cli

Debug = Callable[..., str]
FILTER = """\
source 0 t [a: long] rows=1000
filter [(#0 > 3)]
  scan 0 [#0 := a]
"""
JOIN = """\
source 0 t [a: long] rows=1000000
source 1 u [b: long] rows=1000000
join inner [(#0 = #1)]
  scan 0 [#0 := a]
  scan 1 [#1 := b]
"""


@pytest.fixture
def debug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Debug:
    """`debug(text, command, ..., at="")`: what a command prints about a file of this text."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *arguments: str, at: str = "") -> str:
        Path("linear.txt").write_text(text, encoding="utf-8")
        assert cli.main(["debug", *arguments, f"linear.txt{at}"]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Debug:
    """`refused(text, command, ...)`: what is said instead."""

    def run(text: str, *arguments: str) -> str:
        path = tmp_path / "linear.txt"
        path.write_text(text, encoding="utf-8")
        assert cli.main(["debug", *arguments, str(path)]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        return said.err.removeprefix(f"tidemill debug: {path}: ").rstrip()

    return run


def table(text: str) -> dict[str, list[str]]:
    """Of the table at the end of an output the numbers of each rule, without its milliseconds."""
    lines = text.rpartition("\n\n")[2].splitlines()
    assert lines[0].split() == ["rule", "matched", "applied", "results", "new", "ms"]
    return {name: numbers[:-1] for name, *numbers in map(str.split, lines[1:])}


def test_rule_shows_what_the_rule_of_the_file_yields(debug: Debug) -> None:
    expected = "1: filter [(#0 > 3)]\n  1.delta(0, 1] = filter [(#0 > 3)]  [linear]\n    0.delta(0, 1]\n"
    assert debug(f"rule\n{FILTER}", "rule") == expected
    assert debug(f"rule\n{FILTER}", "rule", "linear") == expected
    assert debug(f"rule\n{FILTER}", "rule", "inner_join") == "inner_join yields nothing\n"
    assert debug(f"rule\n{FILTER}", "rule", "--disable", "linear") == "linear yields nothing\n"


def test_explore_shows_every_way(debug: Debug) -> None:
    found = debug(f"explore\n{FILTER}", "explore")
    assert "  1.delta(0, 1] = filter [(#0 > 3)]  [linear]\n    0.delta(0, 1]\n" in found
    assert "[evaluate]" in found
    assert "matched" not in found
    counts = table(debug(f"explore\n{FILTER}", "explore", "--counts"))
    assert counts["linear"] == ["1", "1", "1", "1"]
    assert counts["linear_parts"] == ["1", "0", "0", "0"]
    assert "inner_join" not in counts, "it looks at joins only"


def test_plan_shows_steps_states_costs_and_alternatives(debug: Debug) -> None:
    lines = debug(f"plan\n{FILTER}", "plan").splitlines()
    assert lines[:3] == ["INCREMENTAL by delta", "delta: [#0 := a, #1 := _n]", "  filter [(#0 > 3)]"]
    rest = [line.split()[0] for line in lines if not line.startswith(" ")][2:]
    assert rest == ["estimated:", "alternative", "alternative", "search:"]
    assert lines[-1].endswith(" rules fired, saturated")
    assert "[delta/linear, " in debug(f"plan\n{FILTER}", "plan", "--memo")


def test_what_the_command_line_says_goes_before_the_block(debug: Debug) -> None:
    block = f"explore policy=INCREMENTAL changed=t\n{JOIN}"
    assert "changes 0 " in debug(block, "plan")
    assert "changes 0 " not in debug(block, "plan", "--changed", "u")
    assert "changes 0 " in debug(block, "plan", "--changed", "t,u")
    assert debug(block, "plan", "--first").startswith("FULL (FIRST)")
    assert debug(block, "plan", "--policy", "AUTO", "--prefer", "recompute").splitlines()[0].endswith("recompute")
    assert debug(block, "plan", "--policy", "AUTO", "--lost", "t,u", "--changed", "t,u").startswith("FULL (")


def test_a_file_of_several_blocks(
    debug: Debug, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"# about the first\nrule\n{FILTER}----\nwhatever\n\nrule changed=-\n{FILTER}"
    both = debug(text, "rule")
    first, second = both.split("\n\n")
    assert first.startswith("# linear.txt:2\n1: filter")
    assert second == "# linear.txt:9\n1: filter [(#0 > 3)]\n  1.delta(1, 1] = empty [#0]  [linear]\n"
    assert debug(text, "rule", at=":4") == first.partition("\n")[2] + "\n"
    assert debug(text, "rule", at=":12") == second.partition("\n")[2]
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert cli.main(["debug", "rule", "linear", "-"]) == 0
    assert capsys.readouterr().out == both.replace("linear.txt:", "-:")


def test_steps_show_each_firing_the_choice_and_the_plan(debug: Debug) -> None:
    trace, plan, counts = debug(f"plan policy=INCREMENTAL\n{FILTER}", "steps").split("\n\n")
    *firings, choice = trace.splitlines()[:9]
    assert firings == [
        "space 1: changes of t; readable: the content",
        "  R0: scan 0 [#0 := a]",
        "  R1: filter [(#0 > 3)] <- R0",
        "  1. scan_changes at R0: R0.delta(0, 1] = net [#0] <- (changes 0(0, 1] [#0 := a])",
        "  2. linear at R1: R1.delta(0, 1] = filter [(#0 > 3)] <- (R0.delta(0, 1])",
        "  3. merge_delta at R1: R1.snapshot@1 = unsign [#0] <- (net [#0] <- (sum <- (R1.snapshot@0, R1.delta(0, 1])))",
        "  4. difference at R1: R1.delta(0, 1] = net [#0] <- (sum <- (R1.snapshot@1, negate <- (R1.snapshot@0)))",
        "  exploration ended: saturated",
    ]
    assert choice.startswith("  choice: the cheapest tree of all: ")
    assert plan.startswith("INCREMENTAL by delta\n")
    assert table(f"\n\n{counts}")["linear"] == ["1", "1", "1", "1"]


def test_steps_show_merges_states_and_what_was_shared(debug: Debug) -> None:
    case = Path(__file__).parents[1] / "rules" / "aggregate_of_parts.txt"
    trace = debug(case.read_text(encoding="utf-8"), "steps", at=":30").partition("\n\n")[0].splitlines()
    assert trace[0].startswith("space 1: changes of t, u; readable: s")
    assert any(line.endswith(": one group, by match_distinct") for line in trace)
    assert any(line.startswith("  kept: ") and " written once: " in line for line in trace)
    weighed = debug(f"plan\n{JOIN}", "steps").partition("\n\n")[0]
    assert "\n  choice: INCREMENTAL " in weighed, "against a full run"
    assert "later runs with " in weighed


def test_a_pack_of_ones_own(debug: Debug) -> None:
    undo = Path(__file__).parents[2] / "examples" / "packs" / "undo"
    block = f"plan lost=t,u\n{JOIN}"
    assert debug(block, "plan").startswith("FULL (HISTORY_GONE")
    assert debug(block, "plan", "--rules", str(undo)).startswith("INCREMENTAL by delta, undo\n")
    assert "[old_from_new]" in debug(block, "rule", "old_from_new", "--rules", str(undo))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rule", "none"], "line 1: there is no rule none"),
        (["explore", "--disable", "none"], "line 1: disables what does not exist: none"),
        (["plan", "--disable", "linear"], "line 1: a plan is made without packs, not rules: linear"),
        (["plan", "--prefer", "none"], "line 1: there is no pack none"),
        (["plan", "--prefer", "delta", "--disable", "delta"], "line 1: there is no pack delta"),
        (["plan", "--changed", "v"], "line 1: no such source: v"),
        (["rule", "--rules", "/none"], "no folder of rules at /none"),
        (["plan", "--policy", "STRICT", "--disable", "delta", "--disable", "affected"], "[TIDEMILL_NOT_INCREMENTAL]"),
    ],
)
def test_what_cannot_be_is_said(refused: Debug, arguments: list[str], words: str) -> None:
    assert refused(f"plan\n{FILTER}", *arguments).startswith(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no block"),
        (f"plan chnged=t\n{FILTER}", "line 1: unknown flag chnged"),
        ("plan\nfilter [(#0 > 3)]\n", "line 1: "),
    ],
)
def test_what_is_no_block_is_said(refused: Debug, text: str, words: str) -> None:
    assert refused(text, "plan").startswith(words)


def test_a_rule_that_raises_is_named(refused: Debug, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "wrong.py").write_text(
        "from tidemill.plan.ops import Filter\nfrom tidemill.rule.rule import rule\n\n\n"
        '@rule(Filter)\ndef wrong(m):\n    """Is wrong."""\n    raise ValueError("so it is")\n    yield\n'
    )
    said = refused(f"rule\n{FILTER}", "rule", "wrong", "--rules", str(tmp_path / "mine"))
    assert said == "rule mine/wrong failed at relation 1: so it is"
