"""Values that were used lately, by key."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass
class Recent(Generic[K, V]):
    """The `most` values that were used last. Thread-safe."""

    most: int
    _known: OrderedDict[K, V] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: K) -> V | None:
        """Returns the value of a key, which counts as used now; None if it is not known any more.

        >>> recent = Recent(most=2)
        >>> for n in range(3):
        ...     recent.put(n, str(n))
        >>> [recent.get(n) for n in range(3)]
        [None, '1', '2']
        """
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def put(self, key: K, value: V) -> None:
        """Gives a key its value. The value that was not used for longest goes if there are too many."""
        with self._lock:
            self._known[key] = value
            self._known.move_to_end(key)
            if len(self._known) > self.most:
                self._known.popitem(last=False)
