"""Packs: one per published method, declared in the `__init__.py` of the folder that holds its rules."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache

BUILT_IN = "tidemill.rules"


class RuleLoadError(Exception):
    """An invalid rule or pack: it is not where its name says, or another has its name."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack of rules, declared as `PACK` in its folder.

    Attributes:
        name: its folder's name.
        published: who published the method, and under which name.
        method: what the rules do, in a few words; shown in docs/settings.md and rules/README.md.
        place: rank among the packs of the release, whose rules are tried in this order.
        basic: its rules are applied everywhere, even after the time for exploration: whether a view can be maintained
            must not depend on time.
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
    """The pack that a folder declares.

    Raises:
        RuleLoadError: if it is not a pack, or has another name than the folder.
    """
    if not isinstance(pack, Pack):
        raise RuleLoadError(f"the folder {folder} declares no PACK")
    if pack.name != folder:
        raise RuleLoadError(f"the folder {folder} declares a pack {pack.name}")
    return pack
