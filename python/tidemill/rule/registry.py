"""Finds rules: each module of a pack's folder holds one, named like its file."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from tidemill.rule.pack import BUILT_IN, Pack, RuleLoadError, built_in_packs, declared
from tidemill.rule.rule import Rule


@lru_cache(maxsize=8)
def load_rules(paths: tuple[str, ...] = ()) -> tuple[Rule, ...]:
    """All rules: those of the built-in packs, then those of one pack per folder in `paths`.

    Raises:
        RuleLoadError: for a file without a rule of its name, a folder that declares a pack of another name, or two
            packs or two rules of one name.
    """
    packs = {pack.name for pack in built_in_packs()}
    rules = [replace(r, basic=pack.basic) for pack in built_in_packs() for r in _built_in(pack)]
    for folder in map(Path, paths):
        pack = _pack_of(folder)
        if pack.name in packs:
            raise RuleLoadError(f"two packs are called {pack.name}, one of them at {folder}")
        packs.add(pack.name)
        rules += [replace(r, basic=pack.basic) for r in _in_folder(folder)]
    seen: dict[str, Rule] = {}
    for rule in rules:
        if rule.name in seen:
            raise RuleLoadError(f"rule {rule.name} stands in packs {seen[rule.name].pack} and {rule.pack}")
        seen[rule.name] = rule
    return tuple(rules)


def _built_in(pack: Pack) -> Iterator[Rule]:
    package = importlib.import_module(f"{BUILT_IN}.{pack.name}")
    for name in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        yield _rule_of(importlib.import_module(f"{BUILT_IN}.{pack.name}.{name}"), name)


def _pack_of(folder: Path) -> Pack:
    """The pack that a folder declares; one of its name if it declares none."""
    if not folder.is_dir():
        raise RuleLoadError(f"no folder of rules at {folder}")
    file = folder / "__init__.py"
    found = vars(_module(file, f"{folder.name}.{file.stem}")).get("PACK") if file.exists() else None
    return Pack(folder.name) if found is None else declared(found, folder.name)


def _in_folder(folder: Path) -> Iterator[Rule]:
    for file in sorted(folder.glob("*.py")):
        if not file.stem.startswith("_"):
            yield _rule_of(_module(file, f"{folder.name}.{file.stem}"), file.stem)


def _module(file: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _rule_of(module: ModuleType, name: str) -> Rule:
    found = getattr(module, name, None)
    if not isinstance(found, Rule):
        raise RuleLoadError(f"{module.__file__} holds no rule called {name}")
    return found
