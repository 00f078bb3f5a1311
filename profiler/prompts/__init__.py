"""Prompt samples: what a file, a log, an export or a request holds of prompts, and an account of what it does not.

`read_prompts` reads files and streams, `prompts_from_objects` lists from a request; both give a `PromptSample`.
"""

from profiler.prompts.reading import FORMATS, SAMPLE_SIZE, prompts_from_objects, read_prompts
from profiler.prompts.sample import Lengths, Message, Prompt, PromptSample, Role, Skipped

__all__ = [
    "FORMATS",
    "SAMPLE_SIZE",
    "Lengths",
    "Message",
    "Prompt",
    "PromptSample",
    "Role",
    "Skipped",
    "prompts_from_objects",
    "read_prompts",
]
