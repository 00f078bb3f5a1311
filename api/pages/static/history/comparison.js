// Two recommendations side by side: what was asked otherwise, and what was answered otherwise.

import { byId, el } from "../elements.js";
import { ask } from "../fetching.js";
import { chance, count, percent, plural, times } from "../formatting.js";
import { openSheet } from "./dialogs.js";
import { candidate, heading, verdictBadge, wholeMoment } from "./parts.js";
import { failed, loading } from "./sheets.js";

/** Open the comparison of an earlier one and a later one. */
export function openComparison(before, after, { closed }) {
  const stopped = new AbortController();
  openSheet("What changed", [loading()], () => {
    stopped.abort();
    closed();
  });
  const read = async () => {
    try {
      const diff = await ask("GET", `/v1/recommendations/${before}/diff/${after}`, { signal: stopped.signal });
      byId("sheet-body").replaceChildren(...shown(diff));
    } catch (error) {
      if (error.name !== "AbortError") failed(error, read);
    }
  };
  read();
}

function shown(diff) {
  return [
    el("p", { class: "notice" }, common(diff)),
    summary(diff),
    el("h3", {}, `Asked otherwise (${count(diff.asked.length)})`),
    diff.asked.length
      ? changes("Asked otherwise", diff.asked)
      : el("p", {}, "Nothing: the requests are the same but for their prompts."),
    el("h3", {}, `Answered otherwise (${count(diff.answered.length)})`),
    ...answered(diff.answered),
  ];
}

/** What belongs to the verdict itself; members of lists (the curve, alternatives, reasons), which are many, fold. */
function answered(found) {
  const inLists = ({ field }) => field.includes("[") || /^(curve|reasons|alternatives|warnings)/.test(field);
  const parts = [found.filter((one) => !inLists(one)), found.filter(inLists)];
  if (found.length === 0) return [el("p", {}, "Nothing.")];
  return [
    parts[0].length ? changes("Answered otherwise", parts[0]) : null,
    parts[1].length
      ? el(
          "details",
          {},
          el("summary", {}, `The curve, alternatives, reasons and warnings (${count(parts[1].length)})`),
          changes("In lists", parts[1]),
        )
      : null,
  ].filter(Boolean);
}

function common(diff) {
  const prompts = diff.same_prompts ? "Both are about the same prompts" : "They are about different prompts";
  const models = diff.same_models
    ? "were predicted by the same models"
    : "were predicted by different versions of the models";
  return `${prompts}, and ${models}.`;
}

function summary({ before, after }) {
  const rows = [
    ["Asked", (item) => wholeMoment(item.created_at), () => null],
    ["Target", (item) => item.target],
    ["GPU", (item) => item.gpu],
    ["At once", (item) => count(item.concurrency)],
    ["Verdict", (item) => verdictBadge(item.verdict, item.decisive), (item) => `${item.verdict} ${item.decisive}`],
    ["Probability that it pays", (item) => chance(item.probability)],
    ["Speedup end to end", (item) => times(item.end_to_end)],
    ["Speedup per output token", (item) => times(item.tpot)],
    ["Candidate", candidate],
    ["Basis", (item) => item.basis],
    ["Prompts", (item) => count(item.prompt_count)],
    ["Labels", (item) => item.labels.join(", ")],
    ["Note", (item) => item.note],
  ];
  const body = rows.map(([name, told, key = told]) => {
    const other = key(before) !== key(after);
    const mark = other
      ? ["\u00a0", el("span", { "aria-hidden": "true" }, "≠"), el("span", { class: "unseen" }, " (differs)")]
      : [];
    return el(
      "tr",
      { class: other ? "other" : null },
      el("th", { scope: "row" }, name, mark),
      el("td", { class: "value" }, told(before)),
      el("td", { class: "value" }, told(after)),
    );
  });
  return framed("Side by side", ["", "Before", "After"], body);
}

function changes(caption, found) {
  const body = found.map(({ field, before, after }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", class: "field" }, field),
      el("td", { class: "value" }, told(before)),
      el("td", { class: "value" }, told(after), change(before, after)),
    ),
  );
  return framed(caption, ["Field", "Before", "After"], body);
}

function framed(caption, header, body) {
  return el(
    "div",
    { class: "scroll sides", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: "unseen" }, caption),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          header.map((text) => heading(text)),
        ),
      ),
      el("tbody", {}, body),
    ),
  );
}

const MOST = 300; // characters of one value

function told(value) {
  if (value === null) return el("span", { class: "hint" }, "none");
  if (typeof value === "number") return Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > MOST ? `${text.slice(0, MOST)}… (${plural(text.length, "character")})` : text;
}

function change(before, after) {
  if (typeof before !== "number" || typeof after !== "number" || before === 0 || before * after < 0) return null;
  const share = after / before - 1;
  if (Math.abs(share) < 0.005) return null;
  return el("span", { class: "hint" }, ` (${share > 0 ? "+" : "−"}${percent(Math.abs(share))})`);
}
