"""Bounds what py4j's callback server reads of a connection that has not brought the token."""

from __future__ import annotations

from typing import IO, Any

GREETING = 3
"""Lines that py4j reads before it compares the token: a word, the token and an end mark."""
MOST = 1024
"""Bytes that such a line may have."""


class ShortGreeting:
    """The lines of a connection, of which the first `GREETING` ones may have `MOST` bytes.

    py4j's own server keeps the first line in memory, however long it is. Behind the token no line is bounded: the JVM
    sends whole plans.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = GREETING

    def readline(self) -> bytes:
        """Returns the next line with its end. Raises OSError for a long one before the token."""
        if not self._left:
            return self._stream.readline()
        self._left -= 1
        line = self._stream.readline(MOST + 1)
        if len(line) > MOST:
            raise OSError("a connection to the callback server did not begin with a token")
        return line

    def close(self) -> None:
        self._stream.close()


def guard_callbacks(gateway: Any) -> None:
    """Bounds the connections of a gateway's callback server, which need not be started yet."""

    def guard(server: Any) -> Any:
        connect = server._create_connection
        server._create_connection = lambda socket, stream: connect(socket, ShortGreeting(stream))
        return server

    create = gateway._create_callback_server
    gateway._create_callback_server = lambda parameters: guard(create(parameters))
    if (running := gateway.__dict__.get("_callback_server")) is not None:
        guard(running)
