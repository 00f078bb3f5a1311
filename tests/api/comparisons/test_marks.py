"""Which text was drafted is said where the server's list, its stream and its tokenizer agree, and nowhere else."""

import random

import pytest

from api.comparisons.marks import accepted_flags, spans

D, T = True, False  # an accepted draft, the target's own token


@pytest.mark.parametrize(
    ("pieces", "steps", "flags"),
    [
        ([1, 3, 1, 2], [2, 0, 1], [T, D, D, T, T, D, T]),  # each step drafted
        ([1, 1, 3, 1], [2], [T, T, D, D, T, T]),  # n-gram: two steps found nothing to draft
        ([1, 3, 2], [2, 3], [T, D, D, T, D, D]),  # the last step had accepted more than was still wanted
        ([1, 3, 1], [2, 2], [T, D, D, T, D]),  # of which one token was sent
        ([1, 1, 1], [], [T, T, T]),
        ([1], [], [T]),
        ([1, 5, 1], [1, 2, 0], [T, D, T, D, D, T, T]),  # two steps sent as one piece, but all steps drafted
        ([3, 2], [1, 1], [T, D, T, D, T]),  # even with the first token
    ],
)
def test_the_list_is_laid_over_the_pieces(pieces, steps, flags):
    """A step that accepted a emits a drafts and one token of the target's own."""
    assert accepted_flags(pieces, steps, sum(pieces)) == flags


@pytest.mark.parametrize(
    ("pieces", "steps", "tokens"),
    [([1, 4], [1], 5), ([1, 5], [1, 2, 3], 6), ([2, 3], [2], 5), ([1, 3], [2], 5), ([], [], 0), ([1, 2], [], 3)],
)
def test_what_does_not_fit_is_not_guessed(pieces, steps, tokens):
    """Pieces that are no steps, with steps that did not draft: None."""
    assert accepted_flags(pieces, steps, tokens) is None


def test_any_sequence_of_steps_is_found_again():
    """Whatever was accepted, wherever nothing was drafted and wherever the answer was cut."""
    chance = random.Random(5)
    for _ in range(300):
        steps = [chance.choice([None, 0, 0, 1, 2, 3]) for _ in range(chance.randint(0, 12))]
        flags, pieces = [T], [1]
        for step in steps:
            flags += [D] * (step or 0) + [T]
            pieces.append((step or 0) + 1)
        cut = chance.randint(0, pieces[-1] - 1) if len(pieces) > 1 else 0
        pieces[-1] -= cut
        flags = flags[: len(flags) - cut]
        assert accepted_flags(pieces, [step for step in steps if step is not None], len(flags)) == flags


def ends(pieces):
    tokens = characters = 0
    for count, text in pieces:
        tokens, characters = tokens + count, characters + len(text)
        yield tokens, characters


@pytest.mark.parametrize(
    ("strings", "pieces", "flags", "found"),
    [
        (["The", "Ġred", "Ġdoor", "Ċ"], [(1, "The"), (3, " red door\n")], [T, D, D, T],
         [("The", T), (" red door", D), ("\n", T)]),
        (["▁The", "▁red", "<0x0A>"], [(1, " The"), (2, " red\n")], [T, D, T],
         [(" The", T), (" red", D), ("\n", T)]),
        (["aÃ", "¤", "b"], [(1, ""), (2, "aäb")], [T, D, T], []),  # a piece ends where no token does
        (["gÃ¼n", "stig"], [(1, "gün"), (1, "stig")], [T, T], [("günstig", T)]),
        (["a", "b"], [(1, "a"), (2, "b")], [T, D, T], [("a", T), ("b", D)]),  # an end of text has no text
        (["ðŁĺ", "Ģ!"], [(2, "😀!")], [T, D], [("😀", T), ("!", D)]),  # a character in two tokens stays whole
    ],
)  # fmt: skip
def test_tokens_become_runs_of_text(strings, pieces, flags, found):
    """In byte-level and SentencePiece notation."""
    text = "".join(piece for _, piece in pieces)
    assert spans(text, strings, flags, list(ends(pieces))) == found


@pytest.mark.parametrize("strings", [["The", "Ġblue"], ["The"], ["Th", "e", "Ġr", "ed"], []])
def test_tokens_that_do_not_spell_the_text_say_nothing(strings):
    """Another text, too few, other boundaries than the stream's."""
    assert spans("The red", strings, [T, D], [(1, 3), (2, 7)]) == []
