// The list of recommendations: its rows, two that are chosen to be compared, what can be done with one.

import { byId, el } from "../elements.js";
import { chance, count, times } from "../formatting.js";
import { openComparison } from "./comparison.js";
import { closeSheet, confirmed, deleted, editNames, namesBetweenCommas } from "./dialogs.js";
import { Listing, cell, rowButton, openButton } from "./listing.js";
import { candidate, moment, recommendationName, verdictBadge } from "./parts.js";
import { openRecommendation } from "./recommendation_view.js";

/** filter: its fields and what applies them. */
export function setUpRecommendations({ filter, onNothingKept, keepInAddress }) {
  const chosen = new Map();
  const listing = new Listing({
    name: "recommendations",
    path: "/v1/recommendations",
    noun: "recommendation",
    row,
    query: () => query(filter.values()),
    empty: {
      all: [
        "Nothing was asked yet. ",
        el("a", { href: "/" }, "Ask for your own prompts"),
        "; what the service answers at POST /v1/recommendations is listed here.",
      ],
      filtered: "No recommendation fits these filters.",
    },
    onNothingKept,
  });

  function row(item) {
    const name = recommendationName(item);
    const choose = el("input", {
      type: "checkbox",
      "aria-label": `Compare: ${name}`,
      "data-control": "choose",
      checked: chosen.has(item.id),
      onchange: (event) => {
        if (event.target.checked) chosen.set(item.id, item);
        else chosen.delete(item.id);
        tellChosen();
      },
    });
    const open = openButton(item.target, () => view(item.id));
    const who = item.asked_by ? [" by ", item.asked_by] : [];
    return el(
      "tr",
      { role: "row", class: chosen.has(item.id) ? "chosen-row" : null },
      cell(null, choose, { kind: "pick" }),
      cell(null, [open, el("span", { class: "sub" }, `${item.gpu}, ${count(item.concurrency)} at once`)], {
        kind: "what",
        row: true,
      }),
      cell("Verdict", verdictBadge(item.verdict, item.decisive)),
      cell("Speedup", [times(item.end_to_end), el("span", { class: "sub" }, `${chance(item.probability)} probable`)], {
        kind: "number",
      }),
      cell(
        "Method",
        [candidate(item), item.basis === "predicted" ? null : el("span", { class: "sub" }, item.basis)].filter(Boolean),
      ),
      cell("Asked", [moment(item.created_at), ...who]),
      cell("Labels and note", named(item), { kind: item.labels.length || item.note ? "full" : "none" }),
      cell(
        null,
        el(
          "div",
          { class: "row" },
          rowButton("name", "Label", name, () => rename(item)),
          rowButton("delete", "Delete", name, () => remove(item), "danger small"),
        ),
        { kind: "acts" },
      ),
    );
  }

  function named(item) {
    const labels = item.labels.map((label) =>
      el(
        "button",
        { type: "button", "aria-label": `Only with the label ${label}`, onclick: () => filterBy(label) },
        label,
      ),
    );
    const shortened = item.note.length > 160 ? `${item.note.slice(0, 160)}…` : item.note;
    return [
      labels.length ? el("div", { class: "labels" }, labels) : null,
      item.note ? el("span", { class: "note" }, shortened) : null,
    ].filter(Boolean);
  }

  function filterBy(label) {
    filter.set({ label });
    listing.reload();
  }

  function rename(item, then = () => {}) {
    editNames(item, recommendationName(item), (now) => {
      if (chosen.has(now.id)) chosen.set(now.id, now);
      listing.replace(now);
      then(now);
    });
  }

  async function remove(item) {
    const done = await confirmed({
      title: "Delete this recommendation?",
      text:
        `${recommendationName(item)}. ` +
        "It is deleted for good, with its labels, its note and its prompts if they were kept.",
      yes: "Delete",
      act: () => deleted(`/v1/recommendations/${item.id}`),
    });
    if (!done) return;
    closeSheet(); // it was deleted from there, perhaps
    chosen.delete(item.id);
    tellChosen();
    await listing.remove(item.id, "delete");
  }

  function view(id) {
    keepInAddress({ recommendation: id });
    openRecommendation(id, { rename, remove, closed: () => keepInAddress({ recommendation: null }) });
  }

  function compare(before, after) {
    keepInAddress({ compare: `${before},${after}` });
    openComparison(before, after, { closed: () => keepInAddress({ compare: null }) });
  }

  function tellChosen() {
    byId("chosen").hidden = chosen.size === 0;
    byId("compare").disabled = chosen.size !== 2;
    byId("chosen-told").textContent =
      chosen.size === 1
        ? "Choose one more to compare"
        : chosen.size === 2
          ? "Two are chosen"
          : `${chosen.size} are chosen; two can be compared`;
    byId("chosen-list").replaceChildren(...[...chosen.values()].map((item) => el("li", {}, recommendationName(item))));
    for (const each of listing.rows.children) {
      const is = chosen.has(each.dataset.id);
      each.classList.toggle("chosen-row", is);
      each.querySelector('[data-control="choose"]').checked = is;
    }
  }

  byId("compare").addEventListener("click", () => {
    const [before, after] = [...chosen.values()].sort((a, b) => a.created_at.localeCompare(b.created_at));
    compare(before.id, after.id);
  });
  byId("choose-none").addEventListener("click", () => {
    const first = chosen.keys().next().value;
    chosen.clear();
    tellChosen();
    listing.focus(first, "choose");
  });
  return { listing, view, compare };
}

/** What the route takes of what the form has; moments are this browser's days. */
function query({ target, verdict, label, from, until }) {
  const found = [];
  if (target) found.push(["target", target.trim()]);
  if (verdict) found.push(["verdict", verdict]);
  for (const each of namesBetweenCommas(label ?? "")) found.push(["label", each]);
  if (from) found.push(["created_from", midnight(from, 0)]);
  if (until) found.push(["created_before", midnight(until, 1)]);
  return found;
}

function midnight(day, later) {
  const [year, month, date] = day.split("-").map(Number);
  return new Date(year, month - 1, date + later).toISOString();
}
