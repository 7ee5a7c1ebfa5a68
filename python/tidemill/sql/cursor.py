"""A reader over the tokens of one statement, for recursive descent. Each error points at its place in the text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from tidemill.errors import TidemillError
from tidemill.sql.tokens import Token, string_value, tokenize

TextRange = tuple[int, int]
T = TypeVar("T")
W = TypeVar("W", bound=str)

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")
_INTEGER = re.compile(r"[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]+|[0-9]+\.[0-9]*|\.[0-9]+")
_FLOAT = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:e[+-]?[0-9]+)?", re.IGNORECASE)
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE", "(")


class Cursor:
    """Reads the tokens. Keywords are given in upper case and matched in any case; symbols are given as they are."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.clauses: list[tuple[str, TextRange]] = []
        self._tokens = tokenize(sql)
        self._next = 0

    # Looking ahead

    def peek(self, ahead: int = 0) -> Token:
        """Returns the token `ahead` places behind the next one; at the end of the text, the `end` token."""
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def at(self, *words: str, ahead: int = 0) -> bool:
        """Returns True if the next tokens are these keywords or symbols."""
        return all(_is(self.peek(ahead + index), word) for index, word in enumerate(words))

    def at_end(self) -> bool:
        return self.peek().kind == "end"

    def at_name(self, ahead: int = 0) -> bool:
        return self.peek(ahead).kind in ("word", "quoted")

    # Places

    def here(self) -> TextRange:
        """Returns the range of the next token."""
        token = self.peek()
        return token.start, token.stop

    def since(self, start: int) -> TextRange:
        """Returns the range from `start` to the end of the token that was read last."""
        return start, max(start, self._tokens[self._next - 1].stop if self._next else 0)

    def mark(self, clause: str, span: TextRange) -> None:
        """Notes that a clause was given; `not_yet` then checks whether this version supports it."""
        self.clauses.append((clause, span))

    # Reading

    def skip(self) -> Token:
        token = self.peek()
        if token.kind == "unclosed":
            raise self.error()
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def take(self, *words: str) -> bool:
        """Reads these words if all of them come next. Returns True if it did."""
        if not self.at(*words):
            return False
        self._next += len(words)
        return True

    def choice(self, options: Collection[tuple[str, ...]], expected: str) -> tuple[str, ...]:
        """Reads one of these sequences of words and returns it.

        If only the first words of some of them come next, the error is at the word behind these and says how they go
        on. Else it says what is `expected`.
        """
        found = max((words for words in options if self.at(*words)), key=len, default=None)
        if found is not None:
            self.take(*found)
            return found
        begun = {words[0] for words in options if self.at(words[0])}
        following = list(dict.fromkeys(words[1] for words in options if words[0] in begun and len(words) > 1))
        if not following:
            raise self.error(f"expected {expected}")
        self.skip()
        second = [words for words in options if words[0] in begun and len(words) > 2 and self.at(words[1])]
        if second:
            self.skip()
            raise self.error(f"missing '{second[0][2]}'")
        raise self.error(f"missing '{following[0]}'" if len(following) == 1 else "expected " + " or ".join(following))

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                raise self.error(f"missing '{word}'")

    def choose(self, *words: W) -> W:
        """Reads one of these words and returns it."""
        for word in words:
            if self.take(word):
                return word
        raise self.error("expected " + " or ".join(words))

    def name(self) -> str:
        """Reads one part of a name."""
        token = self.peek()
        if token.kind == "quoted":
            self.skip()
            return token.text[1:-1].replace("``", "`")
        if token.kind != "word":
            raise self.error("expected a name")
        self.skip()
        text, stop = self._hyphenated(token)
        if not _PLAIN_NAME.fullmatch(text):
            raise TidemillError("INVALID_IDENTIFIER", {"ident": text}, (token.start, stop))
        return text

    def _hyphenated(self, first: Token) -> tuple[str, int]:
        # Spark reads `my-view` as one wrong name, so that the message can say how to quote it.
        stop = first.stop
        while self.at("-") and self.peek(1).kind == "word" and self.peek(1).start == stop + 1:
            self.skip()
            stop = self.skip().stop
        return self.sql[first.start : stop], stop

    def names(self) -> tuple[str, ...]:
        """Reads a name of one or more parts."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return tuple(parts)

    def string(self) -> str:
        """Reads a string. Adjacent literals make one string, as in Spark."""
        if self.peek().kind != "string":
            raise self.error("expected a string")
        values = []
        while self.peek().kind == "string":
            values.append(string_value(self.skip().text))
        return "".join(values)

    def integer(self) -> int:
        """Reads an integer without sign, of at most 18 digits."""
        if not _INTEGER.fullmatch(self.peek().text):
            raise self.error("expected an integer of at most 18 digits")
        return int(self.skip().text)

    def signed_integer(self) -> int:
        return -self.integer() if self.take("-") else self.integer()

    def number(self) -> float:
        """Reads a finite number with an optional minus. The clause itself refuses a number that is out of range."""
        sign = -1.0 if self.take("-") else 1.0
        if not _FLOAT.fullmatch(self.peek().text) or not math.isfinite(float(self.peek().text)):
            raise self.error("expected a number")
        return sign * float(self.skip().text)

    def decimal_text(self) -> str:
        """Reads an integer or decimal and returns its text, as Spark keeps property values."""
        if not _DECIMAL.fullmatch(self.peek().text):
            raise self.error("expected a string, a number, TRUE or FALSE")
        return self.skip().text

    def listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Reads `( item [, ...] )`."""
        self.expect("(")
        items = [read()]
        while self.take(","):
            items.append(read())
        self.expect(")")
        return tuple(items)

    def parenthesised(self) -> TextRange:
        """Skips a parenthesised text. Returns the range between the parentheses."""
        self.expect("(")
        start, stop, depth = self.peek().start, self.peek().start, 1
        while True:
            if self.at_end():
                raise self.error("missing ')'")
            token = self.skip()
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0:
                if stop == start:
                    self._next -= 1
                    raise self.error()
                return start, stop
            stop = token.stop

    def at_query(self, ahead: int = 0) -> bool:
        """Returns True if a query begins `ahead` places behind the next token."""
        return any(self.at(word, ahead=ahead) for word in _QUERY_STARTS)

    def outside_parentheses(self) -> Iterator[int]:
        """Yields how far ahead each of the remaining tokens is that stands in no parentheses."""
        depth = 0
        for ahead in range(len(self._tokens) - self._next - 1):
            text = self.peek(ahead).text
            depth -= text == ")"
            if depth == 0:
                yield ahead
            depth += text == "("

    def query(self) -> TextRange:
        """Skips a query that takes the rest of the statement. Returns its range; Spark parses its text."""
        if not self.at_query():
            raise self.error("expected a query")
        start = self.peek().start
        self._next = len(self._tokens) - 1
        return self.since(start)

    def end(self) -> None:
        """Refuses further tokens."""
        if not self.at_end():
            raise self.error("expected the end of the statement")

    def error(self, hint: str = "", at: Token | None = None) -> TidemillError:
        """Returns Spark's syntax error at a token (None: the next one), for the caller to raise."""
        token = at or self.peek()
        if token.kind == "unclosed":
            return TidemillError("UNCLOSED_BRACKETED_COMMENT", {}, (token.start, token.stop))
        near = "end of input" if token.kind == "end" else f"'{token.text}'"
        if token.kind == "symbol" and token.text in ("'", '"', "`"):
            hint = f"the text that begins with {token.text} has no end"
        parameters = {"error": near, "hint": f": {hint}" if hint else ""}
        return TidemillError("PARSE_SYNTAX_ERROR", parameters, (token.start, token.stop))


def _is(token: Token, word: str) -> bool:
    # A name between back quotes or a string is never a keyword.
    return token.kind in ("word", "symbol") and token.text.upper() == word
