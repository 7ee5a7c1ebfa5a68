"""The dynamic programme over the operators of a query: the states that it proposes fit, and are the best ones where no
state serves two parts of the query."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import pytest

from tests.search.test_keeping import QUERIES, Costs, costs, first_run, over, question
from tidemill.rule.engine import Budget
from tidemill.search.keep import keeping
from tidemill.search.keep.programme import NOTHING, States, _Programme, lowest_over, proposed
from tidemill.search.keep.weighing import Room

PARTS = {0: 3_000_000, 1: 9_000_000, 2: 6_000_000, 3: 5_000_000}
BYTES = {0: 2_000.0, 1: 9_000.0, 2: 5_000.0, 3: 5_000.0}
"""Of the state of each part; the two of 5,000 bytes gain more than the one of 9,000, which gains most by itself."""
SEVERAL = "".join(f"source {n} t{n} [a: long, b: long] rows={rows}\n" for n, rows in PARTS.items())


def sums(source: int) -> str:
    """Sums over one source of its own."""
    a, b, key, total = (f"#{10 * source + n}" for n in range(4))
    return over(f"aggregate keys=[{key} := {a}] calls=[{total} := sum({b})]", f"scan {source} [{a} := a, {b} := b]")


def together(one: str, other: str, first: int, left: int, right: int) -> str:
    """The union of two parts with the columns `left` and `right` and those after them."""
    columns = f"[[#{left}, #{left + 1}], [#{right}, #{right + 1}]]"
    return over(f"union [#{first}, #{first + 1}] from={columns}", one, other)


DISJOINT = together(
    together(sums(0), sums(1), 50, 2, 12), together(sums(2), sums(3), 60, 22, 32), first=70, left=50, right=60
)
"""Sums over four sources: each state is read by its own part alone."""


def programmed(of: Costs, budget: float | None) -> States:
    """The states that the dynamic programme proposes within so many bytes."""
    return proposed(of.question.scenarios, of.question.prices, of.room(budget), of)


def best(of: Costs, budget: float) -> float:
    return min(map(of, of.fitting(of.room(budget))))


@pytest.fixture(scope="module")
def disjoint() -> Costs:
    found = question(first_run(SEVERAL + DISJOINT, PARTS))
    space = found.scenarios[0].space
    sizes = {c.name: BYTES[source] for c in space.candidates for source in space.memo.tvrs[c.tvr].props.sources}
    return Costs(replace(found, room=Room(sizes)))


@pytest.fixture(scope="module", params=list(QUERIES))
def shared(request: pytest.FixtureRequest) -> Costs:
    return costs(QUERIES[request.param])


def test_it_finds_the_best_states_of_disjoint_parts(disjoint: Costs) -> None:
    """Whatever the budget: also where the best set is no smaller one with something added."""
    sizes = [disjoint.room(None).taken(some) for some in disjoint.every]
    assert len(disjoint.names) == 4
    kept = {budget: programmed(disjoint, budget) for budget in sizes}
    for budget, some in kept.items():
        assert disjoint.room(budget).fits(some)
        assert disjoint(some) == pytest.approx(best(disjoint, budget))
    names = list(kept.values())
    assert any(len(one) == len(other) == 2 and not one & other for one, other in combinations(names, 2))
    assert disjoint(programmed(disjoint, None)) == pytest.approx(min(map(disjoint, disjoint.every)))


def test_an_operator_divides_its_bytes_among_its_inputs(disjoint: Costs) -> None:
    """What an input is given goes to states of its own, of which it knows the best for less bytes, too."""
    of = disjoint.question
    space = of.scenarios[0].space
    memo = space.memo
    programme = _Programme(of.scenarios, of.prices, disjoint.room(None), lambda: False)
    inputs = memo.tvrs[space.root].expressions[0][1]
    assert len(inputs) == 2
    for part in inputs:
        below = memo.tvrs[part].props.sources
        own = frozenset(c.name for c in space.candidates if memo.tvrs[c.tvr].props.sources <= below)
        assert len(own) == 2
        assert {NOTHING, own} < set(programme.best(part))
        assert own == NOTHING.union(*programme.best(part))


def test_it_fits_and_more_bytes_are_never_worse(shared: Costs) -> None:
    most = shared.room(None).taken(shared.names)
    found = []
    for share in (0.0, 0.05, 0.1, 0.3, 0.6, 0.9, 1.0):
        kept = programmed(shared, share * most)
        assert shared.room(share * most).fits(kept)
        found.append(shared(kept))
        assert found[-1] >= best(shared, share * most) - 1e-6
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]


def test_without_bytes_it_proposes_no_state(shared: Costs) -> None:
    assert programmed(shared, 0.0) == NOTHING


def test_without_time_it_proposes_no_state(shared: Costs) -> None:
    of = shared.question
    assert proposed(of.scenarios, of.prices, shared.room(None), shared, lambda: True) == NOTHING


def test_a_state_belongs_to_its_operator(shared: Costs) -> None:
    """Or to the lowest one that reads all its sources, if a rule made its relation."""
    space = shared.question.scenarios[0].space
    memo = space.memo
    places = {c.tvr: lowest_over(memo, space.root, c.tvr) for c in space.candidates}
    tree = set(of_the_query(shared, space.root))
    assert set(places.values()) <= tree
    assert all(place == relation for relation, place in places.items() if relation in tree)
    for relation, place in places.items():
        sources = memo.tvrs[relation].props.sources
        assert sources <= memo.tvrs[place].props.sources
        if relation not in tree:
            below = memo.tvrs[place].expressions[0][1]
            assert not any(sources <= memo.tvrs[i].props.sources for i in below)


def of_the_query(shared: Costs, relation: int) -> list[int]:
    """The relations of the query's operators from this one downwards."""
    memo = shared.question.scenarios[0].space.memo
    return [relation, *(r for i in memo.tvrs[relation].expressions[0][1] for r in of_the_query(shared, i))]


@pytest.mark.parametrize("start", ["programme", "all candidates"])
def test_the_search_starts_from_other_sets_too(disjoint: Costs, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither prices of bytes nor single steps are tried, what it finds is one of them."""
    for name in ("FEW", "FEW_WITHIN", "BISECTIONS", "ROUNDS"):
        monkeypatch.setattr(keeping, name, 0)
    if start == "all candidates":
        monkeypatch.setattr(keeping, "proposed", lambda *_: NOTHING)
    of = disjoint.question
    for budget in sorted(disjoint.room(None).taken(some) for some in disjoint.every)[1:-1]:
        found = keeping.worth_keeping(of.scenarios, of.prices, disjoint.room(budget), Budget(seconds=60.0)).names
        assert disjoint.room(budget).fits(found)
        if start == "programme":
            assert disjoint(found) == pytest.approx(best(disjoint, budget))
        else:
            assert disjoint(found) <= disjoint(least_dense_dropped(disjoint, budget)) + 1e-6


def test_the_programme_leaves_time_for_the_rest_of_the_search(disjoint: Costs, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def endless(*given: object) -> States:
        is_over = given[-1]
        assert callable(is_over)
        while not is_over():
            clock[0] += 1.0
        return NOTHING

    for name in ("FEW", "FEW_WITHIN"):
        monkeypatch.setattr(keeping, name, 0)
    monkeypatch.setattr(keeping, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(keeping, "proposed", endless)
    of, budget = disjoint.question, 10_000.0
    found = keeping.worth_keeping(of.scenarios, of.prices, disjoint.room(budget), Budget(seconds=60.0)).names
    assert 30.0 < clock[0] < 32.0
    assert disjoint(found) == pytest.approx(best(disjoint, budget))


def least_dense_dropped(disjoint: Costs, budget: float) -> States:
    """All states without those that gain least per byte, until they fit."""
    kept = frozenset(disjoint.names)
    while not disjoint.room(budget).fits(kept):
        sizes = disjoint.question.room.sizes
        kept -= {min(sorted(kept), key=lambda n: (disjoint(kept - {n}) - disjoint(kept)) / max(1.0, sizes[n]))}
    return kept
