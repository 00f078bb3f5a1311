"""Nothing runs twice, and no two jobs share a GPU: on both databases, with workers that come at the same moment."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter

import pytest
from sqlalchemy import select, text

from api.history import profiles as stored_profiles
from api.history.database import Database, read_url
from api.history.errors import KeyReusedError
from api.history.history import patiently
from api.jobs import queue
from api.jobs.claim import Report, claim, end, release, report
from api.jobs.ending import Ending, NewEvent, give_up_silent
from api.jobs.errors import NotEndedError, QueueFullError
from api.jobs.queue import Submission
from api.jobs.request import ProfileRequest
from api.jobs.tables import devices, jobs
from api.jobs.worker import devices_of
from profiler.probe.profile import Profile
from tests.advisor.profiles import point, profile
from tests.api.jobs.conftest import prompts

GPU = frozenset(["here gpu 0"])


def request(**changes):
    known = {"prompts": prompts(2), "attach": {"speculative_url": "http://127.0.0.1:1"}}
    return ProfileRequest.model_validate(known | changes)


def queued(database, count=1, key=None, **changes):
    """The ids of new jobs."""
    asked = request(**changes)
    posted = [Submission(asked, asked_by=None, key=key) for _ in range(count)]
    return [queue.submit(database, one, most_queued=1000)[0]["id"] for one in posted]


def take(database, worker="one", wanted=GPU, lease_s=60.0):
    row = claim(database, worker=worker, lease_s=lease_s, wanted=lambda _: wanted)
    return None if row is None else row["id"]


def at_once(count, work):
    """What `count` threads return that begin at the same moment."""
    results, failures, gate = [], [], threading.Barrier(count)

    def run(number):
        gate.wait()
        try:
            results.append(work(number))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    return results


@pytest.fixture
def open_another(database, database_url):
    """More connections to the same database, as other processes would have."""
    opened = []

    def another():
        opened.append(Database(read_url(database_url), wait_s=5.0))
        return opened[-1]

    yield another
    for one in opened:
        one.close()


def patient(function):
    return patiently(function, until=time.monotonic() + 30)


def test_of_many_workers_one_gets_the_job(database, open_another):
    """Eight at the same moment, twenty times over, each with GPUs of its own: each job is claimed once."""
    made = queued(database, 20)
    databases = [open_another() for _ in range(8)]
    claimed = Counter()
    for _ in range(20):
        got = at_once(8, lambda n: patient(lambda: take(databases[n], f"worker {n}", frozenset([f"gpu {n}"]))))
        claimed.update(job for job in got if job is not None)
        with database.writing() as connection:
            connection.execute(devices.delete())
        if sum(claimed.values()) >= 20:
            break
    assert claimed == Counter(dict.fromkeys(made, 1))
    with database.reading() as connection:
        workers = connection.execute(select(jobs.c.worker)).scalars().all()
    assert all(workers)


def test_of_many_jobs_one_gets_the_gpu(database, open_another):
    """Eight workers of one GPU and eight jobs at the same moment: one runs, the others wait for it."""
    queued(database, 8)
    databases = [open_another() for _ in range(8)]
    got = [job for job in at_once(8, lambda n: patient(lambda: take(databases[n], f"worker {n}"))) if job]
    assert len(got) == 1
    assert take(database, "late") is None
    row = queue.find(database, got[0])
    assert end(database, got[0], worker=row["worker"], ending=Ending("failed", "tested"))
    assert take(database, "late") not in (None, got[0])


def test_a_job_that_can_run_passes_one_that_waits(database):
    """A job whose host is taken is left in its place; one of another host begins."""
    first, second, third = queued(database, 3)
    places = {first: frozenset(["a"]), second: frozenset(["a", "b"]), third: frozenset(["b"])}
    got = [claim(database, worker="w", lease_s=60, wanted=lambda row: places[row["id"]]) for _ in range(3)]
    assert [row and row["id"] for row in got] == [first, third, None]


def test_jobs_begin_in_the_order_in_which_they_came(database):
    """The oldest first."""
    made = queued(database, 3)
    assert [take(database, wanted=frozenset([str(n)])) for n in range(3)] == made


def test_a_silent_workers_job_is_given_up_once_and_its_word_not_taken_any_more(database, open_another):
    """Interrupted for good; its GPU is free; the worker that comes back is told that the job is not its own."""
    job, following = queued(database, 2)
    assert take(database, "gone", lease_s=0.2) == job
    time.sleep(0.4)
    others = [open_another() for _ in range(4)]
    given_up = at_once(4, lambda n: patient(lambda: give_up_silent(others[n])))
    assert sorted(map(len, given_up)) == [0, 0, 0, 1]
    row = queue.find(database, job)
    assert (row["state"], row["ended"]) == ("interrupted", "its worker died or lost the database")
    assert report(database, job, worker="gone", lease_s=60, told=Report((NewEvent("note", "late"),))) is None
    assert not end(database, job, worker="gone", ending=Ending("finished", "late"))
    assert [event["text"] for event in queue.events_after(database, job, 0)][-1] == row["ended"]
    assert take(database, "next") == following


def test_looking_at_a_job_whose_worker_is_silent_gives_it_up(database):
    """So that clients see it even where no worker is left."""
    (job,) = queued(database)
    assert take(database, lease_s=0.1) == job
    time.sleep(0.3)
    assert queue.find(database, job)["state"] == "interrupted"


def test_a_lease_that_is_renewed_holds(database):
    """A slow job is no dead one."""
    (job,) = queued(database)
    assert take(database, lease_s=0.5) == job
    for _ in range(4):
        time.sleep(0.3)
        assert report(database, job, worker="one", lease_s=0.5, told=Report()) is False
    assert give_up_silent(database) == []
    assert queue.find(database, job)["state"] == "running"


def test_a_job_that_was_not_begun_goes_back(database):
    """Its worker was told to stop between claim and start: another runs it."""
    (job,) = queued(database)
    assert take(database, "one") == job
    release(database, job, worker="one")
    assert queue.find(database, job)["state"] == "queued"
    assert take(database, "two") == job
    release(database, job, worker="one")  # not its own any more
    assert queue.find(database, job)["state"] == "running"


def test_cancelling_at_the_moment_of_the_claim_is_never_lost(database, open_another):
    """The job is cancelled before it began, or its worker reads in its next word that it is to stop."""
    other = open_another()
    for _ in range(10):
        (job,) = queued(database)
        at_once(
            2,
            lambda n, job=job: (
                patient(lambda: queue.cancel(other, job) and None) if n else patient(lambda: take(database))
            ),
        )
        row = queue.find(database, job)
        if row["state"] == "running":
            assert report(database, job, worker="one", lease_s=60, told=Report()) is True
            assert end(database, job, worker="one", ending=Ending("cancelled", "tested"))
        else:
            assert row["state"] == "cancelled"


def test_the_same_key_at_the_same_moment_is_one_job(database, open_another):
    """Eight clients that ask again since no answer came: one job, whose id all are given."""
    key = uuid.uuid4().hex
    databases = [open_another() for _ in range(8)]
    got = at_once(8, lambda n: patient(lambda: queued(databases[n], key=key)))
    assert len({job for made in got for job in made}) == 1
    with pytest.raises(KeyReusedError):
        queued(database, key=key, seed=1)
    assert queued(database, key=key + "x") != got[0]


def test_a_second_attempt_is_no_second_job(database):
    """Nobody knows whether a commit without a confirmation took place: both to queue and to end may be asked twice."""
    posted = Submission(request(), asked_by=None, key=None)
    first, again = (queue.submit(database, posted, most_queued=9) for _ in range(2))
    assert (first[0]["id"], first[1], again[1]) == (again[0]["id"], True, False)
    job = take(database)
    ending = Ending("interrupted", "tested", timely=True)
    assert [end(database, job, worker="one", ending=ending) for _ in range(2)] == [True, True]
    assert len(queue.events_after(database, job, 0)) == 3


def test_what_was_measured_in_time_is_kept_although_it_comes_late(database):
    """Given up on by somebody who could reach the database earlier than its worker: the job stays interrupted."""
    document = Profile.model_validate(profile(point(16, 1.4)))
    for timely in (True, False):
        (job,) = queued(database, seed=int(timely))
        assert take(database, lease_s=0.1) == job
        time.sleep(0.3)
        assert give_up_silent(database) == [job]
        late = Ending("finished", "settled", profile=document, timely=timely)
        assert not end(database, job, worker="one", ending=late)
        row = queue.find(database, job)
        assert (row["state"], row["profile_id"]) == ("interrupted", job if timely else None)


def test_another_callers_key_is_another_key(database):
    """Two teams that number their requests do not get each other's jobs."""
    made = [
        queue.submit(database, Submission(request(), asked_by=name, key="1"), most_queued=9)[0]["id"] for name in "ab"
    ]
    assert made[0] != made[1]


def test_the_queue_has_an_end(database):
    """With what to do; a job that is known by its key is still given."""
    queued(database, 2, key="known")
    queued(database)
    for _ in range(2):
        with pytest.raises(QueueFullError, match="try again later"):
            queue.submit(database, Submission(request(), asked_by=None, key=None), most_queued=2)
    _, new = queue.submit(database, Submission(request(), asked_by=None, key="known"), most_queued=2)
    assert not new


def test_prompts_are_gone_once_a_job_has_ended(database):
    """Whichever way; while it waits they are there, since a worker may come after a restart."""
    made = queued(database, 3)
    assert take(database, lease_s=0.1) == made[0]
    time.sleep(0.2)
    give_up_silent(database)
    assert take(database) == made[1]
    end(database, made[1], worker="one", ending=Ending("failed", "tested"))
    with database.reading() as connection:
        kept = dict(connection.execute(select(jobs.c.id, jobs.c.prompts)).all())
    assert (kept[made[0]], kept[made[1]]) == (None, None)
    assert "say number 1" in kept[made[2]]
    queue.cancel(database, made[2])
    with database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM profile_jobs WHERE prompts IS NOT NULL")).scalar() == 0


def test_what_a_job_holds_is_what_it_loads():
    """Launched servers and servers of this host: the worker's GPUs; servers elsewhere: their hosts as a whole."""

    def held(**attach):
        return devices_of({"request": request(attach=attach).model_dump_json(exclude_none=True)}, GPU)

    assert held(speculative_url="http://localhost:1", baseline_url="http://127.0.0.1:2") == GPU
    assert held(speculative_url="http://a:1", baseline_url="http://A:2") == {"a as a whole"}
    assert held(speculative_url="http://a:1", baseline_url="http://b:2") == {"a as a whole", "b as a whole"}
    assert devices_of({"request": '{"launch": {}}'}, GPU) == GPU


def test_a_job_that_has_ended_can_be_deleted_and_its_profile_stays(database):
    """With its events and its key; one that waits or runs cannot; asked again it is not there."""
    (job,) = queued(database, key="k")
    document = Profile.model_validate(profile(point(16, 1.4)))
    for state in ("queued", "running"):
        with pytest.raises(NotEndedError, match=state):
            queue.forget(database, job)
        take(database)
    assert end(database, job, worker="one", ending=Ending("finished", "settled", profile=document))
    assert [queue.forget(database, job) for _ in range(2)] == [True, False]
    assert queue.find(database, job) is None
    assert queue.events_after(database, job, 0) == []
    assert stored_profiles.find(database, job) is not None
    assert queued(database, key="k") != [job]


def test_the_census_has_every_job(database):
    """Counts by state, seconds that they ran, and how long the oldest waits: by either database's clock."""
    assert queue.census(database) == queue.Census({}, {}, 0.0)
    made = queued(database, 4)
    assert take(database) == made[0]
    time.sleep(0.3)
    assert end(database, made[0], worker="one", ending=Ending("failed", "tested"))
    assert take(database) == made[1]
    queue.cancel(database, made[2])
    found = queue.census(database)
    assert found.jobs == {"failed": 1, "running": 1, "cancelled": 1, "queued": 1}
    assert 0.2 < found.run_s["failed"] < 60
    assert found.run_s["cancelled"] == 0
    assert 0.3 < found.oldest_queued_s < 600
