"""Artefacts: read only where they are what the manifest says, refused with one message where not."""

import json

import pytest

from models.artefact import MANIFEST, read_artefact, read_numbers, write_artefact, write_numbers
from profiler.errors import ArtefactError

FEATURES = ("b", "a")


@pytest.fixture
def folder(tmp_path):
    write_numbers("n.json", {"x": 1.5}, features=FEATURES, folder=tmp_path, data_sha256="00")
    write_artefact("m.bin", b"tree", features=("f",), folder=tmp_path, data_sha256="00", libraries=("numpy",))
    return tmp_path


def test_what_was_written_is_read(folder):
    """Numbers and bytes come back, each checked against its own entry."""
    assert read_numbers("n.json", features=FEATURES, folder=folder) == {"x": 1.5}
    assert read_artefact("m.bin", features=("f",), folder=folder) == b"tree"


def test_a_changed_file_is_refused(folder):
    """One changed byte, and the message has both digests and what to do."""
    (folder / "n.json").write_text('{"x": 1.6}')
    with pytest.raises(ArtefactError, match=r"damaged.*SHA-256.*specworth train"):
        read_numbers("n.json", features=FEATURES, folder=folder)


@pytest.mark.parametrize(("features", "named"), [(("a", "b"), "another order"), (("b", "a", "c"), "different: c")])
def test_other_features_are_refused(folder, features, named):
    """A reader made for other features, or for the same in another order, gets no numbers."""
    with pytest.raises(ArtefactError, match=named):
        read_numbers("n.json", features=features, folder=folder)


def test_a_pickle_of_another_library_version_is_refused(folder):
    """Versions count for what a library pickled; plain numbers are read under any."""
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"]["m.bin"]["versions"]["numpy"] = "0.0.1"
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ArtefactError, match=r"another numpy; expected 0\.0\.1"):
        read_artefact("m.bin", features=("f",), folder=folder)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2, "files": {}}', '{"format": 1, "files": {}}'])
def test_a_manifest_that_says_nothing_is_refused(folder, text):
    """No manifest, another format, no entry: one ArtefactError, no traceback of json's."""
    (folder / MANIFEST).write_text(text)
    with pytest.raises(ArtefactError, match="manifest"):
        read_numbers("n.json", features=FEATURES, folder=folder)


def test_a_missing_file_is_named(folder):
    """The path that is missing is in the message."""
    (folder / "n.json").unlink()
    with pytest.raises(ArtefactError, match=r"n\.json cannot be read"):
        read_numbers("n.json", features=FEATURES, folder=folder)
