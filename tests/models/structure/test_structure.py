import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from models.structure import STRUCTURES, artefact, structure_probabilities
from models.structure.artefact import CARD, NUMBERS, PIPELINE, checked_bytes, load_pipeline, read_card
from models.structure.corpus import corpus_hash
from models.structure.features import WINDOW, analyze
from models.structure.judge import judge, read_judgement
from models.structure.judge import main as judge_main
from profiler.errors import ArtefactError, PromptsError
from profiler.prompts.sample import Message, Prompt

HERE = Path(__file__).parent


def user(text: str, **fields: object) -> Prompt:
    return Prompt((Message("user", text),), **fields)


def share(prompt: Prompt, name: str) -> float:
    return float(structure_probabilities([prompt])[0, STRUCTURES.index(name)])


def likeliest(text: str, **fields: object) -> str:
    return STRUCTURES[int(structure_probabilities([user(text, **fields)])[0].argmax())]


@pytest.mark.parametrize("file", ["dev_prompts.jsonl", "more_prompts.jsonl"])
def test_recall_on_written_prompts(file: str) -> None:
    """On prompts written by hand in ten classes and several languages the mean recall is at least 0.85."""
    result = judge(read_judgement(HERE / file))
    assert result["macro_recall"] >= 0.85
    assert set(result["recall"]) == set(STRUCTURES)


def test_probabilities_are_probabilities() -> None:
    """Rows are non-negative and sum to 1, for any text, however odd."""
    prompts = [user(text) for text in ("", " ", "\0", "\ud800 lone", "😀" * 5000, "a" * 100_000, "何", "{}", "\n\n\n")]
    shares = structure_probabilities(prompts)
    assert shares.shape == (len(prompts), len(STRUCTURES))
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_nothing_is_claimed_without_text() -> None:
    """A prompt of token ids has no text, so all classes are alike; no prompts give no rows."""
    shares = structure_probabilities([Prompt((), input_tokens=12), user("hello there!")])
    np.testing.assert_allclose(shares[0], 1 / len(STRUCTURES))
    assert shares[1].max() > 0.5
    assert structure_probabilities([]).shape == (0, len(STRUCTURES))


def test_order_and_company_do_not_matter() -> None:
    """A prompt's shares are the same alone, in a crowd and in another order."""
    prompts = [user(f"Write a poem about the number {n}") for n in range(600)] + [user("SELECT 1")]
    together = structure_probabilities(prompts)
    np.testing.assert_allclose(together[-1], structure_probabilities(prompts[-1:])[0])
    np.testing.assert_allclose(together[::-1], structure_probabilities(prompts[::-1]))


def test_a_response_format_is_evidence_of_structured_output() -> None:
    """The same question asked with a JSON schema is structured output."""
    assert likeliest("What are the moons of Mars like?") == "question_answering"
    assert likeliest("What are the moons of Mars like?", response_format="json_schema") == "json"
    assert likeliest("What are the moons of Mars like?", response_format="text") == "question_answering"


def test_tools_are_evidence_of_tool_calling_but_small_talk_stays_mixed() -> None:
    """A request with tools offered is tool calling; a greeting is so only in part."""
    assert likeliest("Is it raining in Leeds?", tools=3) == "tool_calling"
    assert share(user("thanks, that's all, have a nice day!", tools=3), "chat") > 0.2


def test_a_system_prompt_is_evidence() -> None:
    """What the system prompt says decides where the user turn says nothing of its own."""
    text = "The lamp arrived broken and nobody answers the phone."
    system = Message("system", "You are a translator. Translate the user's message into French.")
    assert share(Prompt((system, Message("user", text))), "translation") > 0.5
    assert share(user(text), "translation") < 0.2


def test_the_question_behind_a_long_document_is_seen() -> None:
    """An instruction at the very end of a million characters decides as one at the head does."""
    document = "The council met on Tuesday and nothing was decided about the bridge. " * 15_000
    assert likeliest(document + "\n\nSummarize the text above in three sentences.") == "summarisation"
    assert likeliest("Translate the following text into Spanish:\n\n" + document) == "translation"


def test_at_most_the_window_is_read() -> None:
    """Of a long prompt no more than 2,000 characters count: what stands between head and tail is not read."""
    head, tail = "Fix this function. " * 80, " Why does it fail? " * 40
    assert WINDOW == 2000
    assert analyze(user(head + "x" * 5000 + tail)) == analyze(user(head + "SELECT * FROM poems;" * 250 + tail))


def test_the_bare_numbers_are_the_pipeline() -> None:
    """Prediction without scikit-learn gives what the scikit-learn pipeline gives."""
    rows = [prompt for _, _, prompt in read_judgement(HERE / "dev_prompts.jsonl")]
    np.testing.assert_allclose(structure_probabilities(rows), load_pipeline().predict_proba(rows), atol=1e-6)


def test_scikit_learn_is_not_imported_for_predicting() -> None:
    """Predicting leaves scikit-learn out, whose import takes seconds."""
    code = (
        "import sys; from models.structure import structure_probabilities as s;"
        "from profiler.prompts.sample import Message, Prompt;"
        "s([Prompt((Message('user', 'hi'),))]); sys.exit('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=HERE.parents[2], check=False).returncode == 0


def test_the_card_belongs_to_this_corpus_and_code() -> None:
    """The artefact was trained on the corpus in this checkout, and its judged recall reaches 0.85."""
    card = read_card()
    assert card["corpus"]["sha256"] == corpus_hash()
    assert all(entry["macro_recall"] >= 0.85 for entry in card["judged"])
    assert card["judged"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in (CARD, NUMBERS, PIPELINE):
        shutil.copy(artefact.FOLDER / name, tmp_path / name)
    return tmp_path


def edit(folder: Path, **changes: object) -> None:
    card = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps({**card, **changes}))


def test_a_damaged_artefact_is_refused(copy: Path) -> None:
    """One changed byte is found by the hash, and the message names file and remedy."""
    content = bytearray((copy / NUMBERS).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / NUMBERS).write_bytes(content)
    with pytest.raises(ArtefactError, match=r"structure\.npz is damaged.*reinstall specworth"):
        checked_bytes(NUMBERS, read_card(copy), copy)


def test_a_missing_card_is_told(tmp_path: Path) -> None:
    """Without a card nothing is loaded."""
    with pytest.raises(ArtefactError, match="missing"):
        read_card(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_an_unreadable_card_is_told(tmp_path: Path, content: str) -> None:
    """A card that is no JSON object is refused."""
    (tmp_path / CARD).write_text(content)
    with pytest.raises(ArtefactError, match="card"):
        read_card(tmp_path)


@pytest.mark.parametrize("changes", [{"classes": ["code"]}, {"features_version": 0}])
def test_a_card_of_other_classes_or_features_is_refused(copy: Path, changes: dict[str, object]) -> None:
    """A model for other classes or of another feature code is not used."""
    edit(copy, **changes)
    with pytest.raises(ArtefactError, match="trained for other"):
        read_card(copy)


def test_a_pipeline_of_another_scikit_learn_is_refused(copy: Path) -> None:
    """A pickle is read only by the version that wrote it."""
    edit(copy, sklearn_version="0.1")
    with pytest.raises(ArtefactError, match=r"another scikit-learn; expected 0\.1"):
        load_pipeline(copy)


def test_judging_maps_categories_and_counts_first_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spec-Bench's categories become our classes, reasoning is unscored, and only the first turn is read."""
    rows = [
        {"category": "coding", "turns": ["Write a Python function that adds two lists.", "Tell me a story"]},
        {
            "category": "rag",
            "turns": ["Summarize this article in two sentences.\n\nThe bridge was closed on Monday. It opens in May."],
        },
        {"category": "reasoning", "turns": ["If all bloops are razzies, are all razzies bloops?"]},
        {"class": "tool_calling", "prompt": "Turn the lights off", "tools": [{"type": "function"}]},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    assert judge_main([str(path)]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["counts"] == {"code": 1, "summarisation": 1, "tool_calling": 1}
    assert result["recall"] == {"code": 1.0, "summarisation": 1.0, "tool_calling": 1.0}
    assert sum(result["unscored_guesses"].values()) == 1


def test_judging_refuses_unknown_classes(tmp_path: Path) -> None:
    """A row of a class that does not exist is an error with its line."""
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"class": "poetry", "prompt": "x"}))
    with pytest.raises(PromptsError, match="line 1"):
        read_judgement(path)
