// A map of the speedup over concurrency and prompt length, with the line from where on it pays and the asked point.

import { el, svg } from "../elements.js";
import { count, times } from "../formatting.js";
import { Tip, drawing, short } from "./frame.js";

const ROW = 24;
const MARGIN = { top: 4, right: 10, bottom: 40, left: 52 };
const MOST = 1; // doublings from 1 at which a colour is full

/** Blue where it is faster, orange where it is slower, and never so full that the text on it cannot be read. */
export function colour(speedup) {
  const share = Math.min(1, Math.abs(Math.log2(speedup)) / MOST);
  return `color-mix(in oklab, var(${speedup >= 1 ? "--mark" : "--second"}) ${Math.round(6 + 54 * share)}%, var(--surface))`;
}

/** Where a value lies among the steps of a scale, between them by the logarithm; below them at the first, null above. */
function position(steps, value) {
  if (value > steps[steps.length - 1] * 1.5) return null;
  const inside = Math.min(Math.max(value, steps[0]), steps[steps.length - 1]);
  const next = Math.max(1, steps.findIndex((step) => step >= inside));
  const [low, high] = [steps[next - 1], steps[next]];
  return next - 1 + Math.log(inside / low) / Math.log(high / low);
}

/**
 * map: as the service tells it. here: { concurrency, input } of the asked point. chosen(concurrency, input): a cell was
 * taken.
 */
export function drawHeat(place, { map, minimum, here, chosen, caption }, width) {
  const { concurrency, input_tokens: lengths, speedup, holds } = map;
  const height = MARGIN.top + MARGIN.bottom + ROW * lengths.length;
  const column = (width - MARGIN.left - MARGIN.right) / concurrency.length;
  const left = (c) => MARGIN.left + c * column;
  const upper = (r) => MARGIN.top + (lengths.length - 1 - r) * ROW; // long prompts on top
  const image = drawing(width, height, `Map of the speedup over concurrency and prompt length. ${caption}`);
  const cells = svg("g", {});
  image.append(cells);
  const pays = (r, c) => (speedup[r]?.[c] ?? null) !== null && speedup[r][c] >= minimum;
  for (let r = 0; r < lengths.length; r += 1) {
    image.append(svg("text", { x: MARGIN.left - 6, y: upper(r) + ROW / 2 + 4, "text-anchor": "end" }, short(lengths[r])));
    for (let c = 0; c < concurrency.length; c += 1) {
      const value = speedup[r][c];
      if (value === null) continue;
      const cell = svg("rect", { class: "cell", x: left(c), y: upper(r), width: column, height: ROW, "data-cell": `${r},${c}` });
      cell.style.setProperty("fill", colour(value));
      cells.append(cell);
      if (column >= 30) image.append(svg("text", { class: "value", x: left(c) + column / 2, y: upper(r) + ROW / 2 + 4 }, value.toFixed(2)));
    }
  }
  for (let r = 0; r < lengths.length; r += 1) {
    const [y1, y2] = [upper(r), upper(r) + ROW];
    for (let c = 0; c < concurrency.length; c += 1) {
      if (c > 0 && pays(r, c) !== pays(r, c - 1)) image.append(svg("line", { class: "pays", x1: left(c), x2: left(c), y1, y2 }));
      if (r > 0 && pays(r, c) !== pays(r - 1, c)) image.append(svg("line", { class: "pays", x1: left(c), x2: left(c) + column, y1: y2, y2 }));
    }
    const full = holds[r] === null ? -1 : concurrency.findIndex((b) => b > holds[r]);
    if (full > 0) image.append(svg("line", { class: "beyond", x1: left(full) + 2, x2: left(full) + 2, y1, y2 }));
  }
  const every = Math.max(1, Math.ceil(30 / column));
  for (let c = 0; c < concurrency.length; c += every) {
    image.append(svg("text", { x: left(c) + column / 2, y: height - MARGIN.bottom + 16, "text-anchor": "middle" }, String(concurrency[c])));
  }
  image.append(svg("text", { x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 6, "text-anchor": "middle" },
    "requests at once; up: prompt tokens"));
  const [c, r] = [position(concurrency, here.concurrency), position(lengths, here.input)];
  if (c !== null && r !== null) {
    image.append(svg("circle", { class: "ring", cx: left(c) + column / 2, cy: upper(r) + ROW / 2, r: 10 }));
  }

  place.replaceChildren(image, el("ul", { class: "legend" },
    [0.5, 0.75, 1, 1.5, 2].map((value) => {
      const swatch = el("i", {});
      swatch.style.setProperty("background", colour(value));
      return el("li", {}, swatch, `${value}x${value === 2 ? " and more" : ""}`);
    })));
  const tip = new Tip(place);
  const at = (event) => event.target.dataset?.cell?.split(",").map(Number);
  cells.addEventListener("pointermove", (event) => {
    const cell = at(event);
    if (cell === undefined) return;
    const [row, col] = cell;
    const waits = concurrency[col] > holds[row] ? `; the cache holds ${count(holds[row])}` : "";
    tip.show(`${count(concurrency[col])} at once, ${count(lengths[row])} tokens: ${times(speedup[row][col])}${waits}`,
      left(col) + column / 2, upper(row));
  });
  cells.addEventListener("pointerleave", () => tip.hide());
  cells.addEventListener("click", (event) => {
    const cell = at(event);
    if (cell !== undefined) chosen(concurrency[cell[1]], lengths[cell[0]]);
  });
  return {
    caption,
    header: ["prompt tokens", ...concurrency.map((b) => `${b} at once`)],
    rows: lengths.map((length, row) => [count(length), ...speedup[row].map((v) => (v === null ? "–" : times(v)))]),
  };
}
