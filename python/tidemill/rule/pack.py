"""Packs: a published method each, declared in the `__init__.py` of the folder that holds its rules."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache

BUILT_IN = "tidemill.rules"


class RuleLoadError(Exception):
    """A rule or a pack that is wrong: not where its name says, or of a name that another has."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack of rules, declared as `PACK` in its folder.

    Attributes:
        name: its folder's name.
        published: who published the method, and under which name.
        method: what the rules do, in a few words; part of docs/settings.md and rules/README.md.
        place: among the packs of the release, whose rules are tried in this order.
        basic: its rules are applied to all there is, also when the time for exploring is up: what can be maintained is
            no question of time.
    """

    name: str
    published: str = ""
    method: str = ""
    place: int = 0
    basic: bool = False


@cache
def built_in_packs() -> tuple[Pack, ...]:
    """The packs of this release, in the order in which their rules are tried.

    Raises:
        RuleLoadError: for a folder without a pack of its name, or two packs of one place.
    """
    names = [m.name for m in pkgutil.iter_modules(importlib.import_module(BUILT_IN).__path__)]
    packs = [declared(vars(importlib.import_module(f"{BUILT_IN}.{name}")).get("PACK"), name) for name in names]
    found = tuple(sorted(packs, key=lambda pack: pack.place))
    if len({pack.place for pack in found}) < len(found):
        raise RuleLoadError(f"two packs have one place: {', '.join(f'{p.name} {p.place}' for p in found)}")
    return found


def declared(pack: object, folder: str) -> Pack:
    """What a folder declares as its pack.

    Raises:
        RuleLoadError: if that is no pack, or one of another name.
    """
    if not isinstance(pack, Pack):
        raise RuleLoadError(f"the folder {folder} declares no PACK")
    if pack.name != folder:
        raise RuleLoadError(f"the folder {folder} declares a pack {pack.name}")
    return pack
