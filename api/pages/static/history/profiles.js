// The list of profiles: what was measured, on which target, with which verdict; one of them whole; deleted.

import { byId, el } from "../elements.js";
import { ask } from "../fetching.js";
import { ago, count, methodName, percent, sentence, times, words } from "../formatting.js";
import { closeSheet, confirmed, deleted, openSheet } from "./dialogs.js";
import { Listing, cell, rowButton, openButton } from "./listing.js";
import {
  copyButton,
  facts,
  jsonDetails,
  moment,
  problemLine,
  reportLinks,
  saveButton,
  table,
  verdictBadge,
  wholeMoment,
} from "./parts.js";
import { failed, loading } from "./sheets.js";

/** filter: its fields and what applies them. */
export function setUpProfiles({ filter, onNothingKept, keepInAddress }) {
  const listing = new Listing({
    name: "profiles",
    path: "/v1/profiles",
    noun: "profile",
    row,
    query: () => {
      const { target } = filter.values();
      return target ? [["target", target.trim()]] : [];
    },
    empty: {
      all: [
        "Nothing was measured yet. ",
        el("code", {}, "specworth profile"),
        " measures on servers of yours, and POST /v1/profiles:import keeps it here; ",
        "POST /v1/profiles has a worker measure.",
      ],
      filtered: "No profile fits this filter.",
    },
    onNothingKept,
  });

  function row(item) {
    const name = `${item.target}, ${item.status}, ${ago(item.created_at)}`;
    return el(
      "tr",
      { role: "row" },
      cell(null, openButton(item.target, () => view(item.id)), { kind: "what", row: true }),
      cell("Method", item.method === null ? "as served" : methodName(item.method)),
      cell("Measured", item.status === "complete" ? "complete" : el("span", { class: "badge doubt" }, item.status)),
      cell("Verdict", verdictBadge(item.verdict)),
      cell("Kept", [moment(item.created_at), item.asked_by ? ` by ${item.asked_by}` : ""]),
      cell(
        null,
        el(
          "div",
          { class: "row" },
          rowButton("delete", "Delete", name, () => remove(item), "danger small"),
        ),
        { kind: "acts" },
      ),
    );
  }

  async function remove(item) {
    const done = await confirmed({
      title: "Delete this profile?",
      text:
        `${item.target}, kept ${ago(item.created_at)}. ` +
        "It is deleted for good; recommendations that rested on it stay.",
      yes: "Delete",
      act: () => deleted(`/v1/profiles/${item.id}`),
    });
    if (!done) return;
    closeSheet();
    await listing.remove(item.id, "delete");
  }

  function view(id) {
    keepInAddress({ profile: id });
    const stopped = new AbortController();
    openSheet("Profile", [loading()], () => {
      stopped.abort();
      keepInAddress({ profile: null });
    });
    const read = async () => {
      try {
        show(await ask("GET", `/v1/profiles/${id}`, { signal: stopped.signal }), remove);
      } catch (error) {
        if (error.name !== "AbortError") failed(error, read);
      }
    };
    read();
  }

  return { listing, view };
}

function show(whole, remove) {
  const profile = whole.document;
  const path = `/v1/profiles/${whole.id}`;
  const name = `profile-${whole.id.slice(0, 8)}`;
  const problem = problemLine();
  byId("sheet-title").textContent = `${whole.target}, measured`;
  byId("sheet-body").replaceChildren(
    ...[lead(profile), ...measured(profile), ...accepted(profile), ...toKnow(profile), ...from(whole, profile)].filter(
      Boolean,
    ),
    el(
      "div",
      { class: "acts" },
      problem,
      el(
        "div",
        { class: "row" },
        copyButton(whole.id, "Copy the id, as evidence.profile_id"),
        reportLinks(path, name, problem),
        saveButton("JSON", { path, name: `${name}.json`, problem, part: (kept) => kept.document }),
        el("button", { type: "button", class: "danger", onclick: () => remove(whole) }, "Delete"),
      ),
    ),
  );
}

function lead({ decision, status, ended }) {
  const text = decision.text ? sentence(decision.text) : "";
  const end = status === "complete" ? `It ended: ${ended}.` : `A part of what was to be measured: ${ended}.`;
  return el("p", { class: "lead" }, verdictBadge(decision.verdict, decision.decisive), ` ${text} ${end}`);
}

const span = (ratio) => (ratio ? `${times(ratio.value)} (${ratio.low.toFixed(2)} to ${ratio.high.toFixed(2)})` : "–");
const length = (counts) => (counts?.drafts ? (1 + counts.accepted_tokens / counts.drafts).toFixed(2) : "–");
const rate = (arm) => (arm?.output_tokens_per_s ? count(arm.output_tokens_per_s) : "–");

function measured({ points }) {
  if (points.length === 0) return [];
  const rows = points.map((point) => [
    `${count(point.concurrency)}${point.temperature === null ? "" : `, temperature ${point.temperature}`}`,
    span(point.end_to_end),
    span(point.tpot),
    `${rate(point.baseline)} / ${rate(point.speculative)}`,
    length(point.acceptance),
    count(point.pairs),
  ]);
  const header = [
    "At once",
    "End to end",
    "Per output token",
    "Tokens/s, without / with",
    "Acceptance length",
    "Pairs",
  ];
  return [el("h3", {}, "Measured"), table("Measured", header, rows, { numbers: [1, 2, 3, 4, 5] })];
}

function accepted({ acceptance, structure }) {
  const all = [["all", acceptance], ...Object.entries(structure)].filter(([, counts]) => counts?.drafts);
  if (all.length === 0) return [];
  const rows = all.map(([name, counts]) => [
    words(name),
    length(counts),
    percent(counts.accepted_tokens / counts.drafted_tokens),
    count(counts.drafts),
  ]);
  return [
    el("h3", {}, "Accepted"),
    table("Accepted", ["Prompts", "Acceptance length", "Accepted", "Drafts"], rows, { numbers: [1, 2, 3] }),
  ];
}

function toKnow({ notes, refused }) {
  const lines = [...notes, ...refused.map(({ count: n, what, why }) => `${n} × ${what}: ${why}`)];
  return lines.length
    ? [
        el("h3", {}, "To know"),
        el(
          "ul",
          {},
          lines.map((line) => el("li", {}, sentence(line))),
        ),
      ]
    : [];
}

function from(whole, { environment, speculation, prompts, policy }) {
  const of = policy.objective === "tpot" ? "per output token" : "end to end";
  const engine = environment.engine_version && `vLLM ${environment.engine_version}`;
  return [
    el("h3", {}, "How it was measured"),
    facts([
      ["Kept", [wholeMoment(whole.created_at), whole.asked_by ? ` by ${whole.asked_by}` : ""]],
      ["Question", `at least ${times(policy.min_speedup)} ${of}, with ${percent(policy.confidence)} confidence`],
      ["Prompts", `${count(prompts.sent)} sent of ${count(prompts.usable)}`],
      ["Servers", [environment.mode, engine, ...environment.gpus].filter(Boolean).join(", ")],
      [
        "Speculation",
        [
          speculation.method && methodName(speculation.method),
          speculation.draft,
          speculation.num_speculative_tokens && `k ${speculation.num_speculative_tokens}`,
        ]
          .filter(Boolean)
          .join(", "),
      ],
      ["Id", el("code", {}, whole.id)],
    ]),
    jsonDetails("The whole document", whole.document),
  ];
}
