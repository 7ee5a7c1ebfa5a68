"""Finds rules: each module of a pack's folder holds one, named like its file."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from tidemill.rule.rule import Rule
from tidemill.settings import PACKS

BUILT_IN = "tidemill.rules"


class RuleLoadError(Exception):
    """A rule file that is wrong: no rule of its name, or a name that another rule has."""


@lru_cache(maxsize=8)
def load_rules(paths: tuple[str, ...] = ()) -> tuple[Rule, ...]:
    """All rules: the built-in packs, then one pack per folder in `paths`.

    Raises:
        RuleLoadError: for a file without a rule of its name, or two rules of one name.
    """
    rules = [r for pack in PACKS for r in _built_in(pack)]
    for path in paths:
        rules.extend(_folder(Path(path)))
    seen: dict[str, Rule] = {}
    for rule in rules:
        if rule.name in seen:
            raise RuleLoadError(f"rule {rule.name} stands in packs {seen[rule.name].pack} and {rule.pack}")
        seen[rule.name] = rule
    return tuple(rules)


def _built_in(pack: str) -> Sequence[Rule]:
    package = importlib.import_module(f"{BUILT_IN}.{pack}")
    names = sorted(m.name for m in pkgutil.iter_modules(package.__path__))
    return [_rule_of(importlib.import_module(f"{BUILT_IN}.{pack}.{name}"), name) for name in names]


def _folder(folder: Path) -> Sequence[Rule]:
    if not folder.is_dir():
        raise RuleLoadError(f"no folder of rules at {folder}")
    rules = []
    for file in sorted(folder.glob("*.py")):
        if file.stem.startswith("_"):
            continue
        name = f"{folder.name}.{file.stem}"
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        rules.append(_rule_of(module, file.stem))
    return rules


def _rule_of(module: ModuleType, name: str) -> Rule:
    found = getattr(module, name, None)
    if not isinstance(found, Rule):
        raise RuleLoadError(f"{module.__file__} holds no rule called {name}")
    return found
