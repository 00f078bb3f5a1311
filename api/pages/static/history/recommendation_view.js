// One recommendation, whole: verdict, numbers, what to run, what to know, what was asked; and what to do with it.

import { byId, el, showProblem } from "../elements.js";
import { ask } from "../fetching.js";
import { chance, count, percent, plural, sentence, times, words } from "../formatting.js";
import { openSheet } from "./dialogs.js";
import { explorerLink } from "./explorer_link.js";
import {
  candidate,
  copyButton,
  facts,
  jsonDetails,
  problemLine,
  reportLinks,
  saveButton,
  table,
  verdictBadge,
  wholeMoment,
} from "./parts.js";
import { failed, loading } from "./sheets.js";

/** Open it; rename and remove are what the list does then, too. */
export function openRecommendation(id, { rename, remove, closed }) {
  const stopped = new AbortController();
  openSheet("Recommendation", [loading()], () => {
    stopped.abort();
    closed();
  });
  const read = async () => {
    try {
      show(await ask("GET", `/v1/recommendations/${id}`, { signal: stopped.signal }), { rename, remove });
    } catch (error) {
      if (error.name !== "AbortError") failed(error, read);
    }
  };
  read();
}

function show(whole, { rename, remove }) {
  const answer = whole.recommendation;
  byId("sheet-title").textContent = `${whole.target} on ${whole.gpu}`;
  byId("sheet-body").replaceChildren(
    ...[
      lead(whole),
      numbers(answer),
      command(answer),
      told(answer),
      asked(whole, answer),
      acts(whole, { rename, remove }),
    ]
      .flat(Infinity)
      .filter(Boolean),
  );
}

function lead(whole) {
  const { end_to_end: speedup, level } = whole.recommendation.speedup;
  const action = whole.verdict === "enable" ? "Enable speculative decoding" : "Leave speculative decoding off";
  const gives = whole.basis === "measured" ? "was measured to give" : "is expected to give";
  const doubt = whole.decisive ? "" : " This is not decisive: measure before you rely on it.";
  return el(
    "p",
    { class: "lead" },
    verdictBadge(whole.verdict, whole.decisive),
    ` ${action}: ${candidate(whole)} ${gives} ${times(speedup.value)} end to end`,
    ` with ${plural(whole.concurrency, "request")} at once`,
    ` (${percent(level)} interval ${speedup.low.toFixed(2)} to ${speedup.high.toFixed(2)}).${doubt}`,
  );
}

/** Kept on one line. */
const range = ({ low, high }) => `${low.toFixed(2)}\u00a0to\u00a0${high.toFixed(2)}`;

function numbers(answer) {
  const row = (name, interval, unit = "") => [name, `${interval.value.toFixed(2)}${unit}`, range(interval)];
  const rows = [
    row("Speedup end to end", answer.speedup.end_to_end, "x"),
    row("Speedup of time per output token", answer.speedup.tpot, "x"),
    row(`Acceptance length (${answer.acceptance.basis})`, answer.acceptance.length),
    ["Probability that it pays", chance(answer.probability), ""],
  ];
  const ranges = answer.enable_ranges.map(([low, high]) =>
    low === high ? count(low) : `${count(low)} to ${count(high)}`,
  );
  rows.push(["Pays at how many at once", ranges.length ? ranges.join(", ") : "none", ""]);
  return [
    el("h3", {}, "Numbers"),
    table("Numbers", ["", "Expected", `${percent(answer.speedup.level)} interval`], rows, { numbers: [1, 2] }),
  ];
}

function command(answer) {
  const text = shellLine(answer.configuration.serve_arguments);
  return [
    el("h3", {}, "Run it"),
    el("pre", { class: "command", tabindex: "0", "aria-label": "The vLLM command" }, text),
    el("div", { class: "row" }, copyButton(text, "Copy the command")),
  ];
}

function shellLine(words) {
  const quoted = words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`));
  return ["vllm serve", ...quoted].join(" ").replaceAll(" --", " \\\n  --");
}

function told(answer) {
  const found = [];
  if (answer.reasons.length) {
    found.push(el("h3", {}, "Why, largest effect first"), list(answer.reasons.map((reason) => sentence(reason.text))));
  }
  if (answer.warnings.length) {
    found.push(el("h3", {}, "Before you act on it"), list(answer.warnings.map((warning) => sentence(warning.text))));
  }
  return found;
}

const list = (texts) =>
  el(
    "ul",
    {},
    texts.map((text) => el("li", {}, text)),
  );

function asked(whole, answer) {
  const { workload } = answer;
  const kinds = Object.entries(workload.structure)
    .filter(([, share]) => share >= 0.01)
    .sort(([, a], [, b]) => b - a)
    .map(([name, share]) => `${words(name)} ${percent(share)}`);
  return [
    el("h3", {}, "What was asked"),
    facts([
      ["Asked", [wholeMoment(whole.created_at), whole.asked_by ? ` by ${whole.asked_by}` : ""]],
      ["Prompts", `${count(whole.prompt_count)}, ${whole.prompts === null ? "not kept" : "kept"}: ${kinds.join(", ")}`],
      ["Tokens", `${count(workload.input_tokens)} of prompt, ${count(workload.output_tokens)} of answer`],
      ["Temperature", String(workload.temperature)],
      [
        "Evidence",
        whole.profile_id &&
          el("a", { href: `/history?view=profiles&profile=${whole.profile_id}` }, `profile ${whole.profile_id}`),
      ],
      ["Labels", whole.labels.join(", ")],
      ["Note", whole.note],
      ["Id", el("code", {}, whole.id)],
    ]),
    jsonDetails("The request, as it was asked", whole.request),
  ];
}

function acts(whole, { rename, remove }) {
  const path = `/v1/recommendations/${whole.id}`;
  const name = `recommendation-${whole.id.slice(0, 8)}`;
  const problem = problemLine();
  const renamed = (now) => show({ ...whole, ...now }, { rename, remove });
  const buttons = el(
    "div",
    { class: "row" },
    el("button", { type: "button", onclick: () => rename(whole, renamed) }, "Labels and note"),
    reportLinks(path, name, problem),
    saveButton("JSON", { path, name: `${name}.json`, problem }),
    el("button", { type: "button", class: "danger", onclick: () => remove(whole) }, "Delete"),
  );
  const hint = el("p", { class: "hint" });
  explorerLink(whole, (error) => showProblem(problem, error)).then((found) => {
    buttons.prepend(found.link); // the link packs features, which takes a moment
    hint.textContent = found.hint;
  });
  return el("div", { class: "acts" }, problem, buttons, hint);
}
