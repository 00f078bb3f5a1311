"""Whatever a server streams, a request is a record: an answer, or what was wrong with it; never an exception."""

import asyncio
import gzip

import pytest
from aiohttp import web

from profiler.errors import EndpointError
from profiler.load import Endpoint, Patience, Piece, RequestPlan, Served, run_wave, serve_one
from profiler.load.client import fetch_metrics, served_models
from profiler.load.whole import METRICS_BYTES
from profiler.prompts.sample import Message, Prompt

DONE = b"data: [DONE]\n\n"


def answered(path: str, body: bytes, ask, *, status: int = 200, head: dict[str, str] | None = None):
    """What `ask(session, url)` makes of a server that answers this."""
    headers = {"Content-Type": "text/event-stream"} | (head or {})

    async def go():
        async def handler(_: web.Request) -> web.Response:
            return web.Response(body=body, status=status, headers=headers)

        application = web.Application()
        application.router.add_route("*", path, handler)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            async with Endpoint(url, request_timeout_s=10.0).session() as session:
                return await ask(session, url)
        finally:
            await runner.cleanup()

    return asyncio.run(go())


def streamed(body: bytes, *, status: int = 200, head: dict[str, str] | None = None) -> Served:
    async def ask(session, url):
        prompts = [(0, Prompt(messages=(Message("user", "say something"),)))]
        plan, hasty = RequestPlan(model="m"), Patience(attempts=1)
        return await run_wave(session, plan, prompts, concurrency=1, with_metrics=False, patience=hasty)

    wave = answered("/v1/chat/completions", body, ask, status=status, head=head)
    assert wave.put_off in (0, 1)
    return wave.served[0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "ended before [DONE]"),
        (b"\xff\xfe\n\n", "ended before [DONE]"),
        (b"event: ping\n\n: a comment\n\n" + DONE, "no usage"),
        (b"data: null\n\n" + DONE, "no object"),
        (b"data: []\n\n" + DONE, "no object"),
        (b"data: " + b"x" * 200_000 + b"\n\n" + DONE, "broken JSON"),
        (b"data: " + b"x" * 5_000_000, "a line without end"),
        (b": still here\n\n" * 400_000, "the stream went on beyond 3,145,728 bytes"),
        (b'data: {"choices": 3}\n\n' + DONE, "unknown form"),
        (b'data: {"choices": [null]}\n\n' + DONE, "unknown form"),
        (b'data: {"choices": [{"delta": 5}]}\n\n' + DONE, "no usage"),
        (b'data: {"choices": [{"delta": {"content": ["a"]}, "finish_reason": 3}]}\n\n' + DONE, "no usage"),
        (b'data: {"usage": 3}\n\n' + DONE, "no usage"),
        (b'data: {"usage": {"completion_tokens": "many"}}\n\n' + DONE, "no usage"),
        (b'data: {"usage": {"completion_tokens": -5}}\n\n' + DONE, "no usage"),
        (b'data: {"usage": {"completion_tokens": 1e300}}\n\n' + DONE, "no usage"),
        (b'data: {"usage": {"completion_tokens": true}}\n\n' + DONE, "no usage"),
        (b'data: {"usage": {"completion_tokens": null}}\n\n' + DONE, "no usage"),
        (b'data: {"error": "gone"}\n\n' + DONE, "the server reported gone"),
        (b'data: {"error": {"code": "x"}}\n\n' + DONE, "the server reported"),
        (b'data: {"error": {"code": 503}}\n\n' + DONE, "the server reported"),
    ],
)
def test_a_broken_stream_is_told(body: bytes, said: str) -> None:
    """Each kind of damage is the record's error."""
    served = streamed(body)
    assert served.error is not None
    assert said in served.error


def test_what_does_not_matter_costs_no_answer() -> None:
    """An error that is null, metrics of another form, a prompt's count that is none: the answer counts all the same."""
    served = streamed(
        b'data: {"error": null, "choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], "metrics": 4}\n\n'
        b'data: {"usage": {"completion_tokens": 5, "prompt_tokens": "x"}, "metrics": {"speculative_decoding": 4}}\n\n'
        + DONE
    )
    assert served.ok
    assert (served.text, served.output_tokens, served.input_tokens, served.finish_reason) == ("a", 5, None, "stop")


def test_whoever_listens_is_told_each_piece_and_may_end_it() -> None:
    """With the server's running count, which may move without text; what the listener returns is the error."""
    body = b"".join(
        b'data: {"choices": [{"delta": {"content": "%s"}}], "usage": {"completion_tokens": %d}}\n\n' % piece
        for piece in ((b"one", 1), (b" two three", 3), (b"", 4))
    )
    for patient in (True, False):
        heard: list[Piece] = []

        def listen(piece: Piece, heard=heard, patient=patient) -> str | None:
            heard.append(piece)
            return None if patient or len(heard) < 2 else "enough"

        async def ask(session, url, listen=listen):
            prompt = Prompt(messages=(Message("user", "count"),))
            return await serve_one(session, RequestPlan(model="m"), prompt, index=0, listen=listen)

        served = answered("/v1/chat/completions", body + DONE, ask)
        told = [(piece.text, piece.output_tokens) for piece in heard]
        assert told == [("one", 1), (" two three", 3), ("", 4)][: 3 if patient else 2]
        assert served.error == (None if patient else "enough")


@pytest.mark.parametrize("data", [b"3", b'"abc"', b'["abc"]', b"[null]", b"{}", b"[]", b"null"])
def test_models_of_another_form_are_no_server_of_ours(data: bytes) -> None:
    """/v1/models must list objects."""

    async def ask(session, url):
        return await served_models(session, url=url)

    with pytest.raises(EndpointError, match="no OpenAI-style server"):
        answered("/v1/models", b'{"data": ' + data + b"}", ask)


@pytest.mark.parametrize("head", [{}, {"Content-Type": "text/plain; charset=rot13"}])
def test_a_refusal_is_told_by_its_beginning(head: dict[str, str]) -> None:
    """Of megabytes some characters, in whatever encoding they claim to be."""
    served = streamed(b"no \xff" + b"x" * 5_000_000, status=500, head=head)
    assert served.error is not None
    assert served.error.startswith("HTTP 500: no \ufffdxxx")
    assert len(served.error) < 400


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_that_is_too_long_is_not_read(packed: bool) -> None:
    """Also where few bytes are sent that unpack to many; without /metrics a server is measured all the same."""
    many = b'{"data": [' + b" " * 2 * METRICS_BYTES
    head = {"Content-Encoding": "gzip"} if packed else {}
    body = gzip.compress(many) if packed else many

    async def listed(session, url):
        return await served_models(session, url=url)

    with pytest.raises(EndpointError, match="does not answer; got it sends more than 1,048,576 bytes"):
        answered("/v1/models", body, listed, head=head)

    async def counted(session, url):
        return await fetch_metrics(session)

    assert answered("/metrics", body, counted, head=head) is None


def test_metrics_in_an_encoding_that_is_none_are_read() -> None:
    """Names and figures are ASCII, whatever the server says."""

    async def counted(session, url):
        return await fetch_metrics(session)

    head = {"Content-Type": "text/plain; charset=rot13"}
    assert answered("/metrics", b"vllm:a 1\n\xff", counted, head=head) == "vllm:a 1\n\ufffd"
