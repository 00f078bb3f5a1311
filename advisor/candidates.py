"""Which ways of speculating are compared?

Those that the request names, else every one that applies to the target: its known draft models and heads, its own
multi-token-prediction layers, n-gram and suffix decoding, each with 1 to 8 draft tokens. A named k is the only one
decided on. Refused: a draft that is larger than its target, a head given as a draft model or the other way round, a
method that needs a drafter where none is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from advisor.deployment import resolve_model
from advisor.request import SpeculationSpec
from profiler.architecture import Architecture
from profiler.catalog import drafters_for
from profiler.catalog.models import find_entry
from profiler.deployment import METHODS, Deployment, Method, Speculation
from profiler.errors import DeploymentError

# Shortest and longest match of n-gram where the request names none, as measured (data/grids/acceptance-1.yaml). vLLM's
# own default, 5 for both, drafts in far fewer steps (models/artifacts/acceptance.md) and costs as much in all others.
LOOKUP = (2, 5)
LARGEST_K = 8  # what is compared where no k is named; published gains peak below it

_DRAFT = "deployment.speculation.draft"
_NEED_DRAFTER = ("draft_model", "eagle", "eagle3", "medusa")


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One method with one drafter, and the numbers of draft tokens to compare; equal to itself alone."""

    method: Method
    ks: tuple[int, ...]
    draft: Architecture | None = None
    trained_context: int | None = None  # tokens; None where not known
    probabilistic: bool = False
    spec: SpeculationSpec | None = None  # what the request says of it

    @property
    def draft_name(self) -> str | None:
        """The drafter's name; None for methods without weights of their own."""
        return None if self.draft is None else self.draft.name

    @property
    def label(self) -> str:
        """The method and its drafter, as people say it."""
        return f"{SPOKEN[self.method]} with {self.draft_name}" if self.draft is not None else SPOKEN[self.method]

    @property
    def lookup(self) -> tuple[int, int] | None:
        """Shortest and longest match of n-gram; None for other methods. vLLM takes one that is given for both."""
        if self.method != "ngram":
            return None
        least, most = (self.spec.prompt_lookup_min, self.spec.prompt_lookup_max) if self.spec else (None, None)
        if least is None and most is None:
            return LOOKUP
        return least or most or LOOKUP[0], most or least or LOOKUP[1]

    def speculation(self, k: int) -> Speculation:
        """The facts that memory plan and step cost are made from."""
        return Speculation(
            method=self.method,
            num_speculative_tokens=k,
            draft=self.draft,
            draft_sample_method="probabilistic" if self.probabilistic else "greedy",
            prompt_lookup_max=self.lookup[1] if self.lookup else None,
            prompt_lookup_min=self.lookup[0] if self.lookup else None,
        )


SPOKEN: dict[Method, str] = {
    "ngram": "n-gram lookup",
    "suffix": "suffix decoding",
    "draft_model": "a draft model",
    "eagle": "EAGLE",
    "eagle3": "EAGLE-3",
    "mtp": "multi-token prediction",
    "medusa": "Medusa",
}


def find_candidates(deployment: Deployment, spec: SpeculationSpec | None) -> tuple[Candidate, ...]:
    """What to compare; never empty. Raises InputError where the request names the impossible."""
    if spec is not None and (spec.method is not None or spec.draft is not None):
        return _named(deployment, spec)
    target = deployment.target
    ways: list[tuple[Method, Architecture | None, int | None]] = [
        (entry.method, entry.architecture, entry.trained_context)
        for entry in drafters_for(target)
        if entry.method in METHODS and _smaller(entry.architecture, target)
    ]
    if target.mtp_layers:
        ways.append(("mtp", None, None))
    ways += [("ngram", None, None), ("suffix", None, None)]
    probabilistic = spec is not None and spec.draft_sample_method == "probabilistic"
    k = spec.num_speculative_tokens if spec is not None else None
    return tuple(
        Candidate(method, (k,) if k is not None else _ks(method, target, draft), draft, context, probabilistic, spec)
        for method, draft, context in ways
        if k is None or k > LARGEST_K or k in _ks(method, target, draft)
    )


def _named(deployment: Deployment, spec: SpeculationSpec) -> tuple[Candidate, ...]:
    """Candidates of the method and drafter that the request names."""
    target, probabilistic = deployment.target, spec.draft_sample_method == "probabilistic"
    if spec.draft is not None:
        draft = resolve_model(spec.draft, field=_DRAFT)
        drafts_by = spec.method or _method_of(draft)
        _check_fits_method(draft, drafts_by)
        if not _smaller(draft, target):
            raise DeploymentError(
                f"The draft {draft.name} is not smaller than its target {target.name}",
                expected=f"fewer than {target.parameters / 1e9:.2f} billion parameters, a tenth of them or less to pay",
                got=f"{draft.parameters / 1e9:.2f} billion",
                field=_DRAFT,
            )
        entry = find_entry(spec.draft.name) if spec.draft.config is None else None
        context = getattr(entry, "trained_context", None)
        ks = _ks(drafts_by, target, draft, spec.num_speculative_tokens)
        return (Candidate(drafts_by, ks, draft, context, probabilistic, spec),)
    assert spec.method is not None  # the request has a method or a draft
    method = spec.method
    ks = _ks(method, target, None, spec.num_speculative_tokens)
    if method == "mtp" and not target.mtp_layers:
        raise DeploymentError(
            f"{target.name} has no multi-token-prediction layers",
            expected="a target with such layers, or the module's config as the draft",
            field=_DRAFT,
        )
    if method not in _NEED_DRAFTER:
        return (Candidate(method, ks, None, None, probabilistic, spec),)
    found = tuple(
        Candidate(method, _ks(method, target, entry.architecture, spec.num_speculative_tokens), entry.architecture,
                  entry.trained_context, probabilistic, spec)
        for entry in drafters_for(target)
        if entry.method == method and _smaller(entry.architecture, target)
    )  # fmt: skip
    if not found:
        raise DeploymentError(
            f"No drafter for {SPOKEN[method]} is known for {target.name}",
            expected="a drafter",
            got="none",
            remedy="give deployment.speculation.draft: a catalog name, or an object with name and config",
            field=_DRAFT,
        )
    return found


def _smaller(draft: Architecture, target: Architecture) -> bool:
    return draft.parameters < target.parameters


def _method_of(draft: Architecture) -> Method:
    """The method that a drafter is for, from what it is."""
    if draft.head_kind is None:
        return "draft_model"
    for method in METHODS:
        if method == draft.head_kind:
            return method
    raise DeploymentError(
        f"{draft.name} is a {draft.head_kind} head, for which there are no predictions",
        expected="a draft model or a head for " + ", ".join(m for m in METHODS if m not in ("ngram", "suffix")),
        field=_DRAFT,
    )


def _check_fits_method(draft: Architecture, method: Method) -> None:
    """A head is no draft model, a model no head, and each head has its method."""
    kind = draft.head_kind or "draft_model"
    if kind != method:
        what = "a full model" if draft.head_kind is None else f"a head for {draft.head_kind}"
        raise DeploymentError(
            f"{draft.name} does not go with the method {method}",
            expected=f"a drafter for {method}",
            got=what,
            remedy=f"the method for it is {kind}" if kind in METHODS else None,
            field=_DRAFT,
        )


def _ks(method: Method, target: Architecture, draft: Architecture | None, named: int | None = None) -> tuple[int, ...]:
    """The numbers of draft tokens to compare."""
    if named is not None:
        return (named,)
    largest = LARGEST_K
    if method == "medusa" and draft is not None and draft.draft_tokens is not None:
        largest = min(largest, draft.draft_tokens)  # one token for each head
    # vLLM runs n declared layers round by round and refuses a k above n that n does not divide.
    layers = target.mtp_layers if method == "mtp" and target.mtp_layers else 1
    return tuple(k for k in range(1, largest + 1) if k <= layers or k % layers == 0)
