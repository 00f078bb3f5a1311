"""However prompts come in a request, no more than SPECWORTH_MAX_PROMPTS are read; sizes are told in plain words."""

import json
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, ValidationError

from api.findings import field_errors, told
from api.problems import ProblemError
from api.routes.dependencies import parse_object
from api.settings import Settings


@pytest.mark.parametrize(
    ("body", "place"),
    [({"prompts": ["a"] * 4}, "prompts"), ({"classes": {"chat": {"prompts": ["a"] * 4}}}, "classes.chat.prompts")],
)
def test_more_prompts_than_the_limit_are_refused_with_their_place(body, place):
    """Those of a capacity plan's classes, too; one fewer is read."""
    text = json.dumps(body).encode()
    with pytest.raises(ProblemError) as caught:
        parse_object(text, Settings(max_prompts=3))
    assert (caught.value.status, caught.value.errors[0].field) == (422, place)
    assert parse_object(text, Settings(max_prompts=4)) == body


@pytest.mark.parametrize("classes", [None, 3, ["a"], {"chat": None}, {"chat": {"prompts": "text"}}, {"": []}])
def test_classes_of_another_form_are_left_to_their_own_check(classes):
    """What is wrong with them is told where they are read."""
    assert parse_object(json.dumps({"classes": classes}).encode(), Settings()) == {"classes": classes}


def test_a_list_or_text_of_the_wrong_size_is_told_without_pythons_types():
    """What was expected, as anybody would say it."""

    class Asked(BaseModel):
        few: Annotated[list[int], Field(min_length=1, max_length=2)]
        short: Annotated[str, Field(max_length=3)]

    for few, short, said in (
        ([], "a", "few: expected at least 1 entry; got []"),
        ([1, 2, 3], "a", "few: expected at most 2 entries; got [1, 2, 3]"),
        ([1], "long text", "short: expected at most 3 characters; got 'long text'"),
    ):
        with pytest.raises(ValidationError) as caught:
            Asked(few=few, short=short)
        assert [told(one) for one in field_errors(caught.value.errors())] == [said]
