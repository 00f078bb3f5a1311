"""Bodies: one JSON object that says one thing only, or a message that says why it is not."""

import asyncio
import contextlib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.body import MOST_VALUES, BodyTooLargeError, NotJsonError, collect, read_object
from profiler.errors import InputError


def refusal(text: bytes) -> InputError:
    with pytest.raises(InputError) as caught:
        read_object(text, max_depth=64)
    return caught.value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b'{"a": NaN}', "the literal NaN at line 1 column 7"),
        (b'{"a": -Infinity}', "the literal Infinity"),
        (b'{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"a": "\xff"}', "not valid UTF-8"),
        (b'{"a": "\xed\xa0\x80"}', "not valid UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not valid UTF-8"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a": 1e999}', "infinity"),
        (b'{"a": 1,}', "trailing comma"),
        (b"{'a': 1}", "expected a string key"),
        (b'{"a": 1} {"b": 2}', "after document"),
        (b'{"a": "cut off', "line 1 column"),
        (b"\x00\x01\x02", "line 1 column 1"),
    ],
)
def test_what_is_no_json_is_refused_as_such(text, told):
    """The message says what stands where, in the words of JSON."""
    error = refusal(text)
    assert isinstance(error, NotJsonError)
    assert told in str(error)


@pytest.mark.parametrize(
    ("text", "got"),
    [(b"[1, 2]", "a list"), (b"1", "a number"), (b"null", "null"), (b'"x"', "a string"), (b"true", "a boolean")],
)
def test_json_that_is_no_object_is_named_for_what_it_is(text, got):
    """A list is JSON, but no request."""
    error = refusal(text)
    assert not isinstance(error, NotJsonError)
    assert error.got == got


@pytest.mark.parametrize("depth", [65, 500, 1100, 50_000])
def test_deep_nesting_is_refused_at_any_depth(depth):
    """Neither our limit, nor orjson's, nor Python's recursion limit lets a traceback out; ours is what is told."""
    for opening, closing in ((b'{"a":', b"}"), (b"[", b"]")):
        text = b'{"x":' + opening * (depth - 1) + b"1" + closing * (depth - 1) + b"}"
        assert "nested too deeply; expected at most 64 levels" in str(refusal(text))


def test_nesting_up_to_the_limit_is_read():
    """64 levels are allowed."""
    assert read_object(b'{"a":' * 64 + b"1" + b"}" * 64, max_depth=64)


@pytest.mark.parametrize("unit", [b"[],", b"{},", b'"ab",', b"1.5,", b'{"a":1},', b"[[[]]],"])
def test_more_values_than_anybody_asks_about_are_refused_before_they_are_made(unit):
    """Each of them takes far more room than its two bytes, and time."""
    text = b'{"prompts": [' + unit * MOST_VALUES + b"1]}"
    tracemalloc.start()
    try:
        assert "too many values" in str(refusal(text))
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
    finally:
        tracemalloc.stop()


def test_commas_and_brackets_in_texts_are_no_values():
    """A long text of code is one value, also where its quotes are escaped."""
    text = b'{"prompts": ["' + b'f(\\"a\\", [1, 2], {3: 4}) \\\\ ' * 300_000 + b'"]}'
    assert text.count(b",") > MOST_VALUES / 2
    assert text.count(b"[") + text.count(b",") + text.count(b"{") > MOST_VALUES
    assert len(read_object(text, max_depth=64)["prompts"]) == 1


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b'{"gpu": 1, "gpu": 2}', "gpu"),
        (b'{"gpu": 1, "g\\u0070u": 1}', "gpu"),
        (b'{"d": [{}, {"speculation": {"k": 1, "m": 2, "k": 3}}]}', "d[1].speculation.k"),
        (b'{"a": {"b": 1, "b": {"c": 1, "c": 2}}}', "a.b"),
    ],
)
def test_a_repeated_key_is_refused_with_its_path(text, field):
    """Parsers keep the last one silently; which one was meant is not ours to guess."""
    error = refusal(text)
    assert error.field == field
    assert repr(field.split(".")[-1]) in str(error)
    assert "once" in str(error)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values, max_size=5))
@settings(max_examples=100, deadline=None)
def test_every_json_object_is_read_as_it_is(value):
    """Whatever an encoder writes comes back; no key is taken for a repeated one."""
    import orjson

    assert read_object(orjson.dumps(value), max_depth=64) == value


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_no_bytes_make_the_reader_fail(text):
    """Any bytes are an object or an InputError."""
    with contextlib.suppress(InputError):
        assert isinstance(read_object(text, max_depth=64), dict)


def test_counting_stops_keeping_at_the_limit():
    """A stream without a declared length is refused once more came than the limit, and not read for ever."""
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 100
            yield b"x" * 100

    with pytest.raises(BodyTooLargeError):
        asyncio.run(collect(endless(), limit=1000))
    assert sent <= 9 * 1000

    async def fits():
        yield b"a" * 600
        yield b"b" * 400

    assert asyncio.run(collect(fits(), limit=1000)) == b"a" * 600 + b"b" * 400
