"""The history page's profiles and jobs: what was measured is read, what is being measured is watched until it ends."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
import uvicorn
from playwright.sync_api import expect

from api.app import create_app
from api.settings import Settings
from tests.advisor.profiles import point, profile
from tests.api.jobs.conftest import JOBS, attach_body, ended, prompts, submit, wait_until
from tests.fake_vllm import Knobs, fake_vllm
from tests.pages.conftest import opened, picture, violations
from tests.pages.kept import LLAMA, MARKUP, focused, row, service, shown


def test_profiles_are_listed_read_and_deleted(browser, serve, tmp_path):
    """The decision and the measured points; by target; an empty list says how one comes there."""
    with service(serve, f"sqlite:///{tmp_path / 'p.sqlite3'}") as client, \
            opened(browser, str(client.base_url), "/history?view=profiles") as page:  # fmt: skip
        expect(page.get_by_text("Nothing was measured yet.")).to_be_visible()
        assert violations(page) == []
        decision = {"verdict": "enable", "decisive": True, "text": "1.40x at 4 at once"}
        one = client.post("/v1/profiles:import", json=profile(point(4, 1.4), point(64, 0.92), decision=decision)).json()
        two = client.post("/v1/profiles:import", json=profile(point(4, 1.1), target=MARKUP, status="partial",
                          ended="interrupted: its worker died")).json()  # fmt: skip
        page.get_by_role("tabpanel").get_by_role("button", name="Refresh").click()
        expect(shown(page, "profiles")).to_have_count(2)
        expect(row(page, two["id"])).to_contain_text(MARKUP)
        expect(row(page, two["id"])).to_contain_text("partial")
        page.get_by_role("search", name="Profiles").get_by_label("Target").fill("llama-8b")
        page.keyboard.press("Enter")
        expect(shown(page, "profiles")).to_have_count(1)
        row(page, one["id"]).locator("[data-control=open]").click()
        sheet = page.get_by_role("dialog")
        expect(sheet).to_contain_text("1.40x at 4 at once.")
        measured = sheet.get_by_role("table", name="Measured").get_by_role("row")
        expect(measured.nth(2)).to_contain_text("640.92x (0.89 to 0.95)")
        with page.expect_download() as saved:
            sheet.get_by_role("button", name="JSON").click()
        text = Path(saved.value.path()).read_text()
        again = client.post("/v1/profiles:import", content=text, headers={"Content-Type": "application/json"})
        assert again.json() == one
        picture(page, "history-profile")
        assert violations(page) == []
        sheet.get_by_role("button", name="Delete").click()
        page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_text("No profile fits this filter.")).to_be_focused()
        assert [each["id"] for each in client.get("/v1/profiles").json()["profiles"]] == [two["id"]]


# Jobs, with a worker as it is run


@pytest.fixture(scope="module")
def measuring(serve, tmp_path_factory):
    """A service and a worker on one database."""
    folder = tmp_path_factory.mktemp("jobs")
    database_url = f"sqlite:///{folder / 'jobs.sqlite3'}"
    with service(serve, database_url) as client, (folder / "worker.log").open("w") as log:
        environment = os.environ | {"SPECWORTH_DATABASE_URL": database_url}
        script = Path(sys.executable).with_name("specworth")
        worker = subprocess.Popen([script, "worker"], stdout=log, stderr=log, env=environment, cwd=folder)
        try:
            yield client
        finally:
            worker.terminate()
            worker.wait(30)
            print((folder / "worker.log").read_text())


@contextlib.contextmanager
def two_servers(*, accepted: int, ttft_s: float = 0.01, steps_s: tuple[float, float] = (0.02, 0.02)):
    """A baseline and a speculative server that emits 1 + `accepted` tokens a step."""
    speculates = {"tokens_per_step": 1 + accepted, "num_speculative_tokens": 4, "step_s": steps_s[1]}
    with (
        fake_vllm(Knobs(ttft_s=ttft_s, step_s=steps_s[0])) as base,
        fake_vllm(Knobs(ttft_s=ttft_s, **speculates)) as spec,
    ):
        yield base, spec


def test_a_running_job_is_watched_until_its_profile_is_there(browser, measuring):
    """Queued on the page before it runs; then a bar, how many were answered, what the pairs say, and its profile."""
    with two_servers(accepted=2, ttft_s=0.1) as servers, \
            opened(browser, str(measuring.base_url), "/history?view=jobs") as page:  # fmt: skip
        expect(page.get_by_text("No profile was asked for yet.")).to_be_visible()
        assert violations(page) == []
        job = submit(measuring, attach_body(*servers))
        page.get_by_role("tabpanel").get_by_role("button", name="Refresh").click()
        mine = row(page, job)
        expect(mine.get_by_role("progressbar")).to_be_visible()
        expect(mine).to_contain_text(re.compile(r"\d+ of \d+ answered, \d+ tokens/s"))
        assert float(mine.get_by_role("progressbar").get_attribute("value") or 0) > 0
        mine.locator("[data-control=open]").click()
        log = page.get_by_role("dialog").get_by_label("What happened")
        expect(log).to_contain_text("warming up")
        expect(mine.locator(".badge")).to_have_text("finished")
        expect(log).to_contain_text("settled")
        assert violations(page) == []
        states = page.locator("#job-log li").all_inner_texts()
        assert sum("waiting for a worker" in text for text in states) == 1
        page.keyboard.press("Escape")
        expect(page.locator("#jobs-status")).to_have_text(f"The job for {LLAMA} is finished: settled")
        expect(mine.get_by_role("button", name=re.compile("^Cancel"))).to_have_count(0)
        mine.get_by_role("link", name="its profile").click()
        expect(page.get_by_role("dialog").get_by_role("heading", name=f"{LLAMA}, measured")).to_be_visible()
        expect(page.get_by_role("tab", name="Profiles")).to_have_attribute("aria-selected", "true")


def test_a_running_job_is_cancelled_and_its_part_is_there(browser, measuring):
    """Asked first; then it says that it stops, then that it is cancelled, and its partial profile can be opened.

    Its speculative server needs a minute for an answer: nothing is settled before a busy browser has looked at it.
    """
    with two_servers(accepted=0, steps_s=(0.002, 0.2)) as servers, \
            opened(browser, str(measuring.base_url), "/history?view=jobs&state=running") as page:  # fmt: skip
        job = submit(measuring, attach_body(*servers, prompts=prompts(400, max_tokens=300)))
        wait_until(measuring, job, lambda found: found["progress"].get("arm") == "speculative")
        page.get_by_role("tabpanel").get_by_role("button", name="Refresh").click()
        expect(row(page, job)).to_contain_text(re.compile(r"at most \d+ s more"))
        picture(page, "history-jobs")
        assert violations(page) == []
        row(page, job).get_by_role("button", name=re.compile("^Cancel")).click()
        page.get_by_role("alertdialog").get_by_role("button", name="Cancel the job").click()
        expect(row(page, job).locator(".badge")).to_have_text("cancelled")
        assert focused(page) == [job, "open"]
        expect(row(page, job).get_by_role("link", name="its partial profile")).to_be_visible()
        assert measuring.get(f"{JOBS}/{job}").json()["state"] == "cancelled"


def test_a_job_that_failed_says_why_and_what_to_do_and_is_deleted(browser, measuring):
    """In the row the reason, in its view expectation and remedy; what happened can be read afterwards."""
    with two_servers(accepted=2) as (base, spec):
        job = submit(measuring, attach_body(spec, base))  # the wrong way round
        wait_until(measuring, job, ended)
    with opened(browser, str(measuring.base_url), f"/history?view=jobs&job={job}") as page:
        expect(row(page, job)).to_contain_text("speculates")
        sheet = page.get_by_role("dialog")
        expect(sheet).to_contain_text("a server without a speculative config")
        expect(sheet.get_by_label("What happened")).to_contain_text("waiting for a worker")
        assert violations(page) == []
        page.keyboard.press("Escape")
        row(page, job).get_by_role("button", name=re.compile("^Delete")).click()
        page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
        expect(row(page, job)).to_have_count(0)
        assert page.evaluate("document.activeElement !== document.body")
        assert measuring.get(f"{JOBS}/{job}").status_code == 404


@contextlib.contextmanager
def breaking(port, database_url):
    """A service on a port of one's own that ends at once: nobody who listens is told."""
    app = create_app(Settings(database_url=database_url))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            until = time.monotonic() + 60
            while not server.started:
                assert time.monotonic() < until
                time.sleep(0.05)
            yield client
    finally:
        server.should_exit = server.force_exit = True
        thread.join(30)
        assert not thread.is_alive()


def test_a_job_of_which_the_connection_is_lost_is_found_again(browser, tmp_path):
    """The service breaks off while a job is followed: its row says so and tries again, and goes on once it is back."""
    database_url = f"sqlite:///{tmp_path / 'lost.sqlite3'}"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with two_servers(accepted=0) as servers, contextlib.ExitStack() as stack:
        client = stack.enter_context(breaking(port, database_url))
        job = submit(client, attach_body(*servers))  # no worker: it waits
        url, lost = f"http://127.0.0.1:{port}", re.compile("ERR_")
        with opened(browser, url, "/history?view=jobs", tolerate=lambda line: bool(lost.search(line))) as page:
            expect(row(page, job)).to_contain_text("Waiting for a worker")
            stack.close()
            expect(row(page, job)).to_contain_text("Trying again.")
            assert violations(page) == []
            with breaking(port, database_url) as again:
                assert again.delete(f"{JOBS}/{job}").json()["state"] == "cancelled"
                expect(row(page, job).locator(".badge")).to_have_text("cancelled")
