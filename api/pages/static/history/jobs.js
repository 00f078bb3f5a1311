// The list of profile jobs: each is followed while it runs, cancelled, and deleted once it has ended.

import { byId, el } from "../elements.js";
import { ask } from "../fetching.js";
import { ago, plural } from "../formatting.js";
import { confirmed, deleted, openSheet } from "./dialogs.js";
import { Course, ENDED, follow } from "./following.js";
import { drawJob, progress, showJob, stateBadge } from "./job_view.js";
import { Listing, cell, rowButton, openButton } from "./listing.js";
import { moment } from "./parts.js";
import { failed, loading } from "./sheets.js";

const DRAW_EVERY_MS = 150; // a stream tells what happened before all at once
const LOOK_FOR_NEW_MS = 5000;

/** filter: its fields and what applies them. */
export function setUpJobs({ filter, onNothingKept, keepInAddress }) {
  const courses = new Map();
  const followed = new Map(); // what ends it, by the job's id
  let open = null; // the job in the sheet
  let shown = false;
  const query = () => (filter.values().state ? [["state", filter.values().state]] : []);
  const listing = new Listing({
    name: "jobs",
    path: "/v1/profiles/jobs",
    noun: "job",
    row,
    query,
    empty: {
      all: [
        "No profile was asked for yet. POST /v1/profiles queues one, and ",
        el("code", {}, "specworth worker"),
        " measures it.",
      ],
      filtered: "No job is in this state.",
    },
    onNothingKept,
    onShown: (jobs) => shown && jobs.forEach(watch),
  });

  function courseOf(job) {
    const known = courses.get(job.id);
    if (known === undefined) courses.set(job.id, new Course(job));
    else known.take(job); // it may have gone on while nobody followed it
    return courses.get(job.id);
  }

  function row(job) {
    const name = `${job.target}, ${ago(job.created_at)}`;
    const act = ENDED.includes(job.state)
      ? rowButton("delete", "Delete", name, () => remove(job), "danger small")
      : !job.cancelling && rowButton("cancel", "Cancel", name, () => cancel(job), "danger small");
    return el(
      "tr",
      { role: "row" },
      cell(
        null,
        [
          openButton(job.target, () => view(job.id)),
          el("span", { class: "sub" }, plural(job.prompt_count, "prompt")),
        ],
        { kind: "what", row: true },
      ),
      cell("State", stateBadge(job)),
      cell("Progress", progress(courseOf(job)), { kind: "job-progress" }),
      cell("Asked", [moment(job.created_at), job.asked_by ? ` by ${job.asked_by}` : ""]),
      cell(null, el("div", { class: "row" }, act), { kind: "acts" }),
    );
  }

  function watch(job) {
    if (ENDED.includes(job.state) || followed.has(job.id)) return;
    const ending = new AbortController();
    followed.set(job.id, ending);
    const course = courseOf(job);
    course.events.length = 0; // they come again from the first
    let timer = null;
    const drawn = () => {
      timer = null;
      draw(course);
    };
    const soon = () => (timer ??= setTimeout(drawn, DRAW_EVERY_MS));
    follow(job.id, {
      signal: ending.signal,
      onEvent: (kind, event) => {
        course.happened(kind, event);
        soon();
      },
      onJob: (now) => {
        course.take(now);
        if (ENDED.includes(now.state)) tellEnd(now);
        soon();
      },
      onLost: (error) => {
        course.lost = error;
        soon();
      },
    }).finally(() => followed.get(job.id) === ending && followed.delete(job.id));
  }

  function draw(course) {
    const { job } = course;
    const there = listing.items.get(job.id);
    if (there !== undefined) {
      if (there.state !== job.state || there.cancelling !== job.cancelling) listing.replace(job);
      else
        listing
          .rowOf(job.id)
          .querySelector(".job-progress")
          .replaceChildren(...progress(course));
    }
    if (open === job.id) drawJob(course);
  }

  function tellEnd(job) {
    listing.status.textContent = `The job for ${job.target} is ${job.state}: ${job.ended}`;
  }

  async function cancel(job) {
    let now = null;
    await confirmed({
      title: "Cancel this job?",
      text:
        `${job.target}, asked for ${ago(job.created_at)}. Its servers are stopped if it started some; ` +
        "what was measured until now is kept as a partial profile.",
      yes: "Cancel the job",
      no: "Let it run",
      act: async () => {
        now = await ask("DELETE", `/v1/profiles/jobs/${job.id}`);
      },
    });
    if (now === null) return;
    draw(courseOf(now));
    listing.focus(job.id, "open");
  }

  async function remove(job) {
    const done = await confirmed({
      title: "Delete this job?",
      text:
        `${job.target}, asked for ${ago(job.created_at)}, ${job.state}. ` +
        "It is deleted for good, with what happened in it; its profile stays.",
      yes: "Delete",
      act: () => deleted(`/v1/profiles/jobs/${job.id}/record`),
    });
    if (!done) return;
    courses.delete(job.id);
    await listing.remove(job.id, "delete");
  }

  function view(id) {
    open = id;
    keepInAddress({ job: id });
    const stopped = new AbortController();
    openSheet("Profile job", [loading()], () => {
      stopped.abort();
      open = null;
      keepInAddress({ job: null });
    });
    const read = async () => {
      try {
        const job = await ask("GET", `/v1/profiles/jobs/${id}`, { signal: stopped.signal });
        const course = courseOf(job);
        showJob(course);
        if (ENDED.includes(job.state) && course.events.length === 0) {
          await follow(id, {
            signal: stopped.signal,
            onEvent: (kind, event) => course.happened(kind, event),
            onJob: () => {},
            onLost: () => {},
          });
          drawJob(course);
        } else {
          watch(job); // opened by its address, it may be on no page that was read
        }
      } catch (error) {
        if (error.name !== "AbortError") failed(error, read);
      }
    };
    read();
  }

  setInterval(async () => {
    if (!shown || document.hidden || listing.asked === null || !byId("jobs-problem").hidden) return;
    try {
      const page = await ask("GET", `/v1/profiles/jobs?${new URLSearchParams([...query(), ["limit", 20]])}`);
      listing.prepend(page.jobs);
    } catch {
      // whoever is followed says so
    }
  }, LOOK_FOR_NEW_MS);

  return {
    listing,
    view,
    /** The list is on the screen: follow what runs. */
    show() {
      shown = true;
      for (const job of listing.items.values()) watch(job);
    },
    /** It is not: nothing is followed. */
    hide() {
      shown = false;
      for (const ending of followed.values()) ending.abort();
      followed.clear();
    },
  };
}
