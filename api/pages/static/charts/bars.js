// Bars that are read like a list: a label, a bar, a figure. And the stacked bar of a memory plan.

import { el } from "../elements.js";
import { gib, percent } from "../formatting.js";

function bar(from, to, most, kind = "") {
  const [start, end] = [from, to].sort((a, b) => a - b);
  return el("span", {
    class: `fill ${kind}`,
    style: { left: percent(start / most, 2), width: percent(Math.max(0, end - start) / most, 2) },
  });
}

/** rows: [{ label, value, figure, low?, high? }] from 0 to `most`. */
export function drawBars(place, { rows, most, caption, header }) {
  place.replaceChildren(el("div", { class: "bars", role: "list" }, rows.flatMap(({ label, value, figure, low, high }) => {
    const whisker = low === undefined ? null : el("span", {
      class: "whisker",
      style: { left: percent(low / most, 2), width: percent((Math.min(high, most) - low) / most, 2) },
    });
    return el("div", { role: "listitem", class: "entry" },
      el("span", { class: "label" }, label),
      el("span", { class: "track", "aria-hidden": "true" }, bar(0, Math.min(value, most), most), whisker),
      el("span", { class: "figure" }, figure));
  })));
  return { caption, header, rows: rows.map(({ label, figure }) => [label, figure]) };
}

/** rows: [{ label, effect, figure }]: what would be gained to the right of the middle, what would be lost to its left. */
export function drawEffects(place, { rows, caption }) {
  const most = Math.max(0.05, ...rows.map(({ effect }) => Math.abs(effect)));
  place.replaceChildren(el("div", { class: "bars told", role: "list" }, rows.map(({ label, effect, figure }) =>
    el("div", { role: "listitem", class: "entry" },
      el("span", { class: "label" }, label),
      el("span", { class: "track", "aria-hidden": "true" }, el("span", { class: "zero", style: { left: "50%" } }),
        bar(most, most + effect, 2 * most, effect < 0 ? "minus" : "")),
      el("span", { class: "figure" }, figure)))));
  return { caption };
}

/** stacks: [{ name, parts: [{ name, kind, bytes }] }], all against `whole` bytes. */
export function drawStacks(place, { stacks, whole, caption }) {
  const kinds = new Map(stacks.flatMap(({ parts }) => parts.map((part) => [part.kind, part.name])));
  place.replaceChildren(
    ...stacks.map(({ name, parts }) => el("div", { class: "stack" },
      el("div", { class: "name" }, el("span", {}, name), el("span", { class: "number" }, gib(parts.at(-1).bytes), " for the cache")),
      el("div", { class: "whole", role: "img",
        "aria-label": `${name}: ${parts.map((part) => `${part.name} ${gib(part.bytes)}`).join(", ")}` },
      parts.filter((part) => part.bytes > 0).map((part) =>
        el("span", { class: `part part-${part.kind}`, title: `${part.name}: ${gib(part.bytes)}`,
          style: { width: percent(part.bytes / whole, 3) } }))))),
    el("ul", { class: "legend" }, [...kinds].map(([kind, name]) => el("li", {}, el("i", { class: `part-${kind}` }), name))),
  );
  const names = [...kinds.values()];
  return {
    caption,
    header: ["part", ...stacks.map(({ name }) => name)],
    rows: names.map((name) => [name, ...stacks.map(({ parts }) => gib(parts.find((part) => part.name === name)?.bytes ?? 0))]),
  };
}
