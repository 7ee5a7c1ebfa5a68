"""Tells that a process is dead, by a lock that the operating system releases when the process ends.

Each process has a random token, and holds a lock on the file `tidemill-<token>.lock` in the folder for temporary files.
Only whoever sees that file can learn anything from it: a process elsewhere sees none, whatever its host is called.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
import uuid
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows: there nobody is ever known to be dead
    fcntl = None  # type: ignore[assignment]  # the module is absent

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_GUARD = threading.Lock()
_own: dict[int, str] = {}
"""The token of this process, by its number: a process that was forked off needs one of its own."""


def own_token() -> str:
    """Returns the token of this process, whose lock it holds from then on."""
    pid = os.getpid()
    with _GUARD:
        if pid not in _own:
            token = uuid.uuid4().hex
            _hold(token)
            _own.clear()
            _own[pid] = token
        return _own[pid]


def is_dead(token: str) -> bool:
    """Returns True if the process of a token has ended; False if it lives, or if that cannot be known here."""
    try:
        held = os.open(_file(token), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # A lock of another machine, on a folder that both have mounted, may not be seen.
        if os.read(held, 100) != _boot() or fcntl is None:
            return False
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(held)
    return True  # the file stays: other views may have marks of that process


def _hold(token: str) -> None:
    path = _file(token)
    try:
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        if fcntl is not None:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Only now: what has no content tells nothing.
        os.write(held, _boot())
    except OSError:
        return  # nobody will know that it is dead before its leases have expired
    atexit.register(_forget, path, os.getpid())  # the lock itself stays until the process ends


def _forget(path: Path, pid: int) -> None:
    if os.getpid() == pid:
        with suppress(OSError):
            path.unlink()


def _boot() -> bytes:
    try:
        return _BOOT.read_bytes().strip() or b"?"
    except OSError:
        return b"?"


def _file(token: str) -> Path:
    return Path(tempfile.gettempdir()) / f"tidemill-{token}.lock"
