"""What does a session ask of which servers? Opened alike for `specworth profile` and for a profile job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from api.commands.probe_plan import plan_around
from profiler.probe.events import Listener
from profiler.probe.session import Session
from profiler.probe.settings import Attached, Launched, ProbeSettings, Question
from profiler.prompts.sample import PromptSample
from profiler.serving.interpreter import Engine


def open_session(
    options: Mapping[str, Any], sample: PromptSample, settings: ProbeSettings, servers: Launched | Attached,
    engine: Engine, *, target: str, source: str | None, config: dict[str, Any] | None, listen: Listener,
    save: Callable[[], None],
) -> Session:  # fmt: skip
    """A session that has not begun: prompts with their classes, a planner where there can be one, what engines tell.

    options: those that `plan_around` reads; target: what the profile calls the model; source: where prompts come from.
    """
    from models.structure import STRUCTURES, structure_probabilities

    classes = structure_probabilities(sample.prompts).argmax(axis=1)
    question = Question(
        prompts=sample.prompts, structure=[STRUCTURES[i] for i in classes], target=target, source=source,
        speculation=config, unread=sample.skipped,
    )  # fmt: skip
    planner, unplanned = plan_around(options, sample, settings, config, engine)
    session = Session(
        question, settings, servers, planner=planner, listen=listen, save=save,
        one_class_per_wave=not engine.tells_acceptance_per_request,
    )  # fmt: skip
    session.surroundings.build_version = engine.version
    session.surroundings.per_request_metrics = engine.tells_acceptance_per_request
    if unplanned is not None and settings.look_around:
        session.record.note(unplanned)
    return session
