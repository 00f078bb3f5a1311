"""Profiles in both databases: each kept once, and let go without taking recommendations along."""

from __future__ import annotations

from api.history import profiles as stored
from api.history import recommendations
from api.history.record import profile_record
from profiler.probe.profile import Profile
from tests.advisor.profiles import point, profile


def measured(**changes):
    return Profile.model_validate(profile(point(16, 1.4), **changes))


def test_a_document_is_kept_once(database):
    """The second time gives the id of the first."""
    first = stored.keep(database, profile_record(measured(), asked_by="ci"))
    again = stored.keep(database, profile_record(measured(), asked_by="other"))
    other = stored.keep(database, profile_record(measured(ended="otherwise"), asked_by="ci"))
    assert first["id"] == again["id"] != other["id"]
    assert again["asked_by"] == "ci"
    assert {row["id"] for row in stored.page(database, target=None, after=None, limit=9).rows} == {
        first["id"], other["id"],
    }  # fmt: skip


def test_the_document_comes_back_equal(database):
    """What was measured is what is read."""
    row = stored.keep(database, profile_record(measured(), asked_by=None))
    found = stored.find(database, row["id"])
    assert found is not None
    assert Profile.model_validate_json(found["document"]) == measured()


def test_a_recommendation_outlives_its_profile(database, make_record):
    """Deleting the profile leaves the answer, which then names none."""
    profile_id = stored.keep(database, profile_record(measured(), asked_by=None))["id"]
    record = make_record(profile_id=profile_id)
    recommendations.keep(database, record)
    found = recommendations.find(database, record.id)
    assert found is not None
    assert found.values["profile_id"] == profile_id
    assert stored.remove(database, profile_id)
    left = recommendations.find(database, record.id)
    assert left is not None
    assert left.values["profile_id"] is None


def test_a_profile_that_went_meanwhile_does_not_cost_the_answer(database, make_record):
    """Deleted between its reading and the keeping of what rests on it."""
    record = make_record(profile_id="0" * 32)
    recommendations.keep(database, record)
    found = recommendations.find(database, record.id)
    assert found is not None
    assert found.values["profile_id"] is None


def test_pages_of_profiles(database):
    """Each once, newest first."""
    kept = [stored.keep(database, profile_record(measured(ended=str(n)), asked_by=None))["id"] for n in range(5)]
    seen, after = [], None
    while True:
        page = stored.page(database, target=None, after=after, limit=2)
        seen += [row["id"] for row in page.rows]
        after = page.following
        if after is None:
            break
    assert seen == kept[::-1]
