"""Questions about a plan on the wire: the sources and states that it reads, and the kinds of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidemill.wire.nodes import Kind, among_of, inputs_of, kind_of


def walk(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The node and all nodes below it, parents first."""
    yield plan
    for below in inputs_of(plan):
        yield from walk(below)


def count(plan: Mapping[str, Any], kind: Kind) -> int:
    """The number of nodes of a kind in a plan."""
    return sum(kind_of(node) == kind for node in walk(plan))


def sources_changed(plan: Mapping[str, Any]) -> frozenset[int]:
    """The sources whose changes a plan reads."""
    return frozenset(int(node["source"]) for node in walk(plan) if kind_of(node) == "changes")


def sources_scanned(plan: Mapping[str, Any]) -> list[int]:
    """The sources whose snapshots a plan reads, each as often as it does."""
    return [int(node["source"]) for node in walk(plan) if kind_of(node) == "scan"]


def values_looked_up(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The (step, field) pairs whose values a plan uses for look-ups."""
    for node in walk(plan):
        if (among := among_of(node)) is not None:
            yield among.step, among.field


def states_read(plan: Mapping[str, Any]) -> frozenset[str]:
    """The names of the states that a plan reads from earlier runs."""
    return frozenset(str(node["name"]) for node in walk(plan) if kind_of(node) == "state")


def steps_read(plan: Mapping[str, Any]) -> frozenset[str]:
    """The names of the steps of the same run whose rows a plan reads, or looks up."""
    staged = (str(node["step"]) for node in walk(plan) if kind_of(node) == "staged")
    return frozenset((*staged, *(step for step, _ in values_looked_up(plan))))


def leaves_read(plan: Mapping[str, Any]) -> frozenset[Kind]:
    """The kinds of a plan's leaves."""
    return frozenset(kind_of(node) for node in walk(plan) if not inputs_of(node))
