"""Splits a text into tokens with their places, by Spark's lexical rules on sqlparse's lexer.

The token table is Spark's (`SqlBaseLexer.g4`, 4.2), not sqlparse's own: sqlparse would join `IF NOT EXISTS` or
`AT TIME ZONE '...'` into one token, and read backslashes in strings differently. Bracketed comments nest in Spark but
not in sqlparse, so they are cut out first. Offsets are the sums of the lengths of all tokens; nothing is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sqlparse import tokens as types
from sqlparse.lexer import Lexer

Kind = Literal["word", "quoted", "string", "number", "symbol", "blank", "unclosed", "end"]

_STRING = r"'(?:[^'\\]|\\[\s\S]|'')*'" + r'|"(?:[^"\\]|\\[\s\S]|"")*"'
_RAW_STRING = r"r'[^']*'" + r'|r"[^"]*"'
_QUOTED = r"`(?:[^`]|``)*`"
_LINE_COMMENT = r"--(?:\\\n|[^\r\n])*"
_NUMBER = r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:e[+-]?[0-9]+)?(?:bd|[lsydf])?(?!\w)"

_TABLE = [
    (_LINE_COMMENT, types.Comment.Single),
    (r"\s+", types.Whitespace),
    (_RAW_STRING, types.String.Single),
    (_STRING, types.String.Single),
    (_QUOTED, types.Name),
    (_NUMBER, types.Number),
    (r"\w+", types.Keyword),
    (r"<=>|<=|>=|<>|==|!=|\|\||->|=>|::|\|>|[\s\S]", types.Punctuation),
]

_KINDS: dict[object, Kind] = {
    types.Comment.Single: "blank",
    types.Comment.Multiline: "blank",
    types.Comment.Multiline.Hint: "blank",
    types.Whitespace: "blank",
    types.String.Single: "string",
    types.Name: "quoted",
    types.Number: "number",
    types.Keyword: "word",
}

_COMMENT_OR_OTHER = re.compile(
    rf"(?P<other>{_LINE_COMMENT}|{_RAW_STRING}|{_STRING}|{_QUOTED}|\w+|(?!/\*)[\s\S])|/\*", re.IGNORECASE
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")

_LEXER = Lexer()
_LEXER.clear()  # type: ignore[no-untyped-call]  # sqlparse has no types
_LEXER.set_SQL_REGEX(_TABLE)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Token:
    """The text from `start` to before `stop` (code points). Kind `quoted` is a back-quoted name."""

    kind: Kind
    text: str
    start: int
    stop: int


def tokenize(sql: str) -> tuple[Token, ...]:
    """Returns the tokens without white space, comments and semicolons at the end; then one `end` token.

    The `end` token stands behind the last of them, or where the trailing semicolons begin. Never raises: text that
    Spark cannot read becomes a `symbol` of one character or, for a comment without end, an `unclosed` token.
    """
    found = [token for token in _all(sql) if token.kind != "blank"]
    end = len(sql.rstrip())
    while found and found[-1].text == ";":
        end = found.pop().start
    return (*found, Token("end", "", end, end))


def _all(sql: str) -> Iterator[Token]:
    begin = 0
    for start, stop, closed in _bracketed_comments(sql):
        yield from _lex(sql[begin:start], begin)
        yield Token("blank" if closed else "unclosed", sql[start:stop], start, stop)
        begin = stop
    yield from _lex(sql[begin:], begin)


def _lex(piece: str, offset: int) -> Iterator[Token]:
    for kind, text in _LEXER.get_tokens(piece):  # type: ignore[no-untyped-call]
        yield Token(_KINDS.get(kind, "symbol"), text, offset, offset + len(text))
        offset += len(text)


def _bracketed_comments(sql: str) -> Iterator[tuple[int, int, bool]]:
    """Yields start, stop, and True if closed, of each outermost `/* ... */`."""
    place = 0 if "/*" in sql else len(sql)
    while place < len(sql):
        match = _COMMENT_OR_OTHER.match(sql, place)
        if match is None or match["other"] is not None:
            place = match.end() if match else place + 1
            continue
        stop, closed = _comment_end(sql, place)
        yield place, stop, closed
        place = stop


def _comment_end(sql: str, start: int) -> tuple[int, bool]:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(sql, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end(), True
    return len(sql), False


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\([01][0-7]{2})|\\([\s\S])|(''|\"\")")


def string_value(literal: str) -> str:
    r"""Returns the value of one string literal, as Spark's `unescapeSQLString` does.

    >>> string_value(r"'it\'s 100\% \101'"), string_value("'it''s'"), string_value(r"r'a\n'")
    ("it's 100\\% A", "it's", 'a\\n')
    """
    if literal[0] in "rR":
        return literal[2:-1]
    quote = literal[0]

    def value(match: re.Match[str]) -> str:
        short, long, octal, plain, doubled = match.groups()
        if doubled:
            return quote if doubled[0] == quote else doubled
        if octal:
            return chr(int(octal, 8))
        if plain:
            return _ESCAPES.get(plain, plain)
        code = int(short or long, 16)
        return chr(code) if code <= 0x10FFFF else "\ufffd"

    return _join_surrogates(_ESCAPE.sub(value, literal[1:-1]))


def _join_surrogates(text: str) -> str:
    # '\uD83D\uDE00' is one character in the JVM. Python must join its halves; a lone half cannot be encoded.
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
