// A job is followed to its end: by its stream of events, again after the connection was lost, from where it was lost.

import { ask, events } from "../fetching.js";

export const ENDED = ["finished", "failed", "cancelled", "interrupted"];
const MOST_STREAMS = 3; // a browser opens six connections to a service, and others must get through
const LOOK_EVERY_MS = 2000; // at jobs that have no stream
const LONGEST_PAUSE_MS = 15_000;

let streams = 0;

/**
 * Tell `onEvent` what happens in a job, `onJob` the job where it was looked at, `onLost` why it cannot be told now.
 * Ends with the job, with `signal`, and where the service refuses.
 */
export async function follow(id, { onEvent, onJob, onLost, signal }) {
  const path = `/v1/profiles/jobs/${id}`;
  let last = null;
  let pause = 1000;
  while (!signal.aborted) {
    try {
      if (streams < MOST_STREAMS) {
        streams += 1;
        try {
          const headers = last === null ? {} : { "Last-Event-ID": last };
          for await (const event of events(`${path}/events`, { headers, signal })) {
            last = event.id ?? last;
            pause = 1000;
            onEvent(event.event, JSON.parse(event.data));
          }
        } catch (error) {
          if (error.status !== 429) throw error; // the service has enough streams open: it is looked at instead
        } finally {
          streams -= 1;
        }
      }
      const job = await ask("GET", path, { signal });
      onJob(job);
      if (ENDED.includes(job.state)) return;
      await waited(LOOK_EVERY_MS, signal);
    } catch (error) {
      if (signal.aborted) return;
      onLost(error);
      if (error.status >= 400 && error.status < 500 && error.status !== 429) return; // asking again changes nothing
      await waited(pause, signal);
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
    }
  }
}

function waited(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}

/** How far a job is, from what it told. */
export class Course {
  constructor(job) {
    this.events = [];
    this.left = new Map(); // seconds of each server's budget
    this.wave = null; // how many prompts it has
    this.latest = {};
    this.look = null;
    this.budget = job.request.budget_s ?? null;
    this.servers = job.request.attach && !job.request.attach.baseline_url ? 1 : 2;
    this.take(job);
  }

  /** The job as it is now. */
  take(job) {
    this.job = job;
    this.lost = null;
    if (Object.keys(job.progress).length > 0) this.#progressed(job.progress);
  }

  /** One event more. */
  happened(kind, { at, text, values }) {
    this.lost = null;
    if (kind === "progress") return this.#progressed(values);
    if (kind === "state") this.job = { ...this.job, state: values.state, phase: text };
    if (kind === "phase" || kind === "wave_started") {
      this.job = { ...this.job, phase: text };
      this.wave = kind === "phase" ? null : values.prompts;
      this.latest = { arm: values.arm };
    }
    if (kind === "look") this.look = text;
    if (text) this.events.push({ at, kind, text });
  }

  #progressed(values) {
    this.latest = values;
    if (values.left_s !== undefined) this.left.set(values.arm, values.left_s);
  }

  /** Share of the time that it may take which is over; null where nothing says. */
  get share() {
    if (this.budget === null || this.left.size === 0) return null;
    let spent = 0;
    for (const left of this.left.values()) spent += this.budget - left;
    return Math.min(Math.max(spent / (this.budget * this.servers), 0), 1);
  }

  /** Seconds that it may still measure; null where nothing says. */
  get longest() {
    const share = this.share;
    return share === null ? null : (1 - share) * this.budget * this.servers;
  }
}
