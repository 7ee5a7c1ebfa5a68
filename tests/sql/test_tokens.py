"""The tokens, against what Spark 4.2 makes of the same text (checked once with its own parser)."""

from __future__ import annotations

import pytest

from tidemill.errors import TidemillError, utf16_offset
from tidemill.sql.tokens import string_value, tokenize


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \n\t\N{NO-BREAK SPACE}", []),
        ("a.`b``c`.1d", ["a", ".", "`b``c`", ".1d"]),
        ("a1 1a 1e5 1.5 .5 5. 10L", ["a1", "1a", "1e5", "1.5", ".5", "5.", "10L"]),
        ("1.a", ["1", ".", "a"]),
        ("<=> <= == =", ["<=>", "<=", "==", "="]),
        ("'it''s' 'a\\'b' 'x'", ["'it''s'", "'a\\'b'", "'x'"]),
        (r"""r'\' R"\" bar'x'""", [r"r'\'", r'R"\"', "bar", "'x'"]),
        ("'open", ["'", "open"]),
        ("a -- b 'c\nd", ["a", "d"]),
        ("a -- b \\\n c\nd", ["a", "d"]),
        ("a /* b /* c */ ' */ d", ["a", "d"]),
        ("a /* b", ["a", "/* b"]),
        ("a /* b /* c */ d", ["a", "/* b /* c */ d"]),
        ("'/*' a `/*` b \"*/\" -- /*\n c", ["'/*'", "a", "`/*`", "b", '"*/"', "c"]),
        ("a;b;; /* c */ ; ", ["a", ";", "b"]),
        ("a$b $$ x $$", ["a", "$", "b", "$$ x $$"]),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    found = tokenize(text)
    assert [token.text for token in found] == [*tokens, ""]
    assert all(text[token.start : token.stop] == token.text for token in found)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("''", ""),
        ("'it''s'", "it's"),
        ('"a""b\'\'c"', "a\"b''c"),
        (r"'\0\b\n\r\t\Z\\\'\"\q'", "\0\b\n\r\t\x1a\\'\"q"),
        (r"'100\% \_'", r"100\% \_"),
        (r"'\101\u0041\U00000041'", "AAA"),
        (r"'\uD83C\uDF0A'", "\N{WATER WAVE}"),
        (r"'\U0001F30A'", "\N{WATER WAVE}"),
        (r"'\u12'", "u12"),
        (r"r'\n'", "\\n"),
        ('R"a\'b"', "a'b"),
    ],
)
def test_string_value(literal: str, value: str) -> None:
    assert string_value(literal) == value


def test_utf16_offset() -> None:
    text = "a\N{WATER WAVE}b"
    assert [utf16_offset(text, at) for at in range(4)] == [0, 1, 3, 4]


def test_error_survives_pickling() -> None:
    import pickle

    error = TidemillError("TIDEMILL_NOT_FOUND", {"view": "v"}, (3, 4))
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.message, copy.parameters, copy.position) == (error.message, {"view": "v"}, (3, 4))
