"""Which of the models behind an endpoint is meant?

Refuses to guess where several are served and none is named: their counts must not be mixed.
"""

from __future__ import annotations

from rapidfuzz import process

from profiler.errors import EndpointError, UnknownNameError
from profiler.metrics import Scrape


def choose_model(scrape: Scrape, asked: str | None) -> str | None:
    """The model whose series are read; None where the server names none.

    Raises:
        EndpointError: several models are served and none is asked for.
        UnknownNameError: the model asked for is not served here.
    """
    served = scrape.models()
    if asked is None:
        if len(served) > 1:
            raise EndpointError(
                f"{len(served)} models are served here",
                expected="the one to observe",
                got=", ".join(served),
                remedy=f"name one, such as --model {served[0]!r}",
            )
        return served[0] if served else None
    if served and asked not in served:
        nearest = process.extractOne(asked, served)
        raise UnknownNameError(
            f"{asked!r} is not served here",
            expected=", ".join(served),
            remedy=f"did you mean --model {nearest[0]!r}?" if nearest else None,
        )
    return asked
