"""Every error a user can meet, and the one shape in which it is told.

    SpecworthError
    ├── InputError            what was given cannot be used; the user can mend it
    │   ├── PromptsError      a prompt file or list that holds nothing to read
    │   ├── UnknownNameError  a model, GPU, method or option that no catalog knows
    │   ├── ArchitectureError a model config that lacks a field or describes something unsupported
    │   ├── DeploymentError   a target, drafter or setting that cannot be served so
    │   ├── EvidenceError     measured counts that contradict themselves or lack their method
    │   └── EndpointError     a server that does not answer, or is not what it should be
    ├── LaunchError           a server that we started did not become ready, or died
    └── ArtefactError         one of our own files is missing, damaged or of another version

Each edge (command line, HTTP) catches SpecworthError once and renders it: one line for a terminal, problem+json over
HTTP. Foreign exceptions are translated where the foreign library is called.
"""

from __future__ import annotations


class SpecworthError(Exception):
    """An error with a message for its reader: what happened, what was expected, what came, what to do next."""

    def __init__(
        self,
        what: str,
        *,
        expected: str | None = None,
        got: str | None = None,
        remedy: str | None = None,
        field: str | None = None,
    ) -> None:
        """Keep the parts apart so that HTTP can give them as members; `field` is a dotted path into the request."""
        self.what = what
        self.expected = expected
        self.got = got
        self.remedy = remedy
        self.field = field
        super().__init__(self.line())

    def line(self) -> str:
        """The whole message as one line."""
        parts = [self.what.rstrip(".")]
        if self.expected:
            parts.append(f"expected {self.expected.rstrip('.')}")
        if self.got:
            parts.append(f"got {self.got.rstrip('.')}")
        if self.remedy:
            parts.append(self.remedy.rstrip("."))
        return "; ".join(parts).replace("\n", " ")


class InputError(SpecworthError):
    """What was given cannot be used; the user can mend it."""


class PromptsError(InputError):
    """A prompt file or list that holds nothing to read."""


class UnknownNameError(InputError):
    """A name that no catalog knows; the message carries the nearest known names."""


class ArchitectureError(InputError):
    """A model config that lacks a field, contradicts itself or describes something unsupported."""


class DeploymentError(InputError):
    """A target, drafter, GPU or engine setting that cannot be served so."""


class EvidenceError(InputError):
    """Measured counts that contradict themselves, or that name no method."""


class EndpointError(InputError):
    """A server that does not answer, or is not what it should be."""


class LaunchError(SpecworthError):
    """A server that we started did not become ready, or died; `code` names the cause (profiler.serving.failures)."""

    def __init__(self, what: str, *, code: str = "launch", **parts: str | None) -> None:
        super().__init__(what, **parts)
        self.code = code


class ArtefactError(SpecworthError):
    """One of the project's own files is missing, damaged or of another version."""
