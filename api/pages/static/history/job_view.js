// One profile job: how far it is, in a row or in the sheet, and what happened in it.

import { byId, el } from "../elements.js";
import { count, sentence } from "../formatting.js";
import { ENDED } from "./following.js";
import { clockTime, facts, jsonDetails, wholeMoment } from "./parts.js";

const KINDS = {
  queued: "plain",
  running: "live",
  finished: "good",
  failed: "bad",
  cancelled: "plain",
  interrupted: "bad",
};

/** A job's state. */
export const stateBadge = (job) =>
  el(
    "span",
    { class: `badge ${KINDS[job.state]}` },
    job.cancelling && !ENDED.includes(job.state) ? "stopping" : job.state,
  );

/** How far a job is: a bar and numbers while it runs, then why it ended. */
export function progress(course) {
  const { job, latest, wave, look, lost } = course;
  if (ENDED.includes(job.state)) {
    const profile =
      job.profile_id &&
      el(
        "a",
        { class: "sub", href: `/history?view=profiles&profile=${job.profile_id}` },
        job.state === "finished" ? "its profile" : "its partial profile",
      );
    return [el("span", {}, sentence(job.problem?.what ?? job.ended ?? job.state)), profile].filter(Boolean);
  }
  const { share, longest } = course;
  const bar = el("progress", {
    max: 1,
    "aria-label": `Of the time that the job for ${job.target} may take`,
    ...(share === null ? {} : { value: share.toFixed(3) }),
  });
  const numbers = [
    latest.answered !== undefined && `${count(latest.answered)}${wave ? ` of ${count(wave)}` : ""} answered`,
    latest.starting_s !== undefined && `starting for ${count(latest.starting_s)} s`,
    latest.output_tokens_per_s !== undefined && `${count(latest.output_tokens_per_s)} tokens/s`,
    latest.acceptance_length !== undefined && `acceptance length ${latest.acceptance_length.toFixed(2)}`,
    longest !== null && `at most ${count(Math.ceil(longest))} s more`,
  ].filter(Boolean);
  return [
    job.state === "queued" && share === null ? null : bar,
    el("span", {}, job.cancelling ? "Stopping" : sentence(job.phase).slice(0, -1)),
    numbers.length ? el("span", { class: "sub number" }, numbers.join(", ")) : null,
    look ? el("span", { class: "sub" }, `So far, ${look}`) : null,
    lost ? el("span", { class: "sub", role: "status" }, `${sentence(lost.message)} Trying again.`) : null,
  ].filter(Boolean);
}

/** Fill the sheet with a job. */
export function showJob(course) {
  const { job } = course;
  byId("sheet-title").textContent = `Profile job for ${job.target}`;
  byId("sheet-body").replaceChildren(
    el("p", { id: "job-state" }, stateBadge(job)),
    el("div", { id: "job-progress" }),
    el("div", { id: "job-problem" }),
    facts([
      ["Asked", [wholeMoment(job.created_at), job.asked_by ? ` by ${job.asked_by}` : ""]],
      ["Began", job.started_at && wholeMoment(job.started_at)],
      ["Prompts", count(job.prompt_count)],
      ["Id", el("code", {}, job.id)],
    ]),
    el("h3", {}, "What happened"),
    el("ol", { class: "log", id: "job-log", tabindex: "0", "aria-label": "What happened" }),
    jsonDetails("The request, as it was asked", job.request),
  );
  drawJob(course);
}

/** Bring the sheet up to what the job told since. */
export function drawJob(course) {
  const { job, events } = course;
  const log = byId("job-log");
  if (log === null) return;
  byId("job-state").replaceChildren(stateBadge(job));
  byId("job-progress").replaceChildren(...progress(course));
  if (job.problem) {
    const { what, expected, got, remedy, field } = job.problem;
    byId("job-problem").replaceChildren(
      el(
        "div",
        { class: "notice error" },
        facts([
          ["What", what],
          ["Expected", expected],
          ["Got", got],
          ["Field", field],
          ["What to do", remedy],
        ]),
      ),
    );
  }
  const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  if (log.children.length > events.length) log.replaceChildren();
  for (const { at, text } of events.slice(log.children.length)) log.append(el("li", {}, clockTime(at), text));
  if (atEnd) log.scrollTop = log.scrollHeight;
}
