// What every chart stands in: a title, a drawing as wide as its place, a caption, and its numbers as a table.
//
// Drawn by ourselves: of the chart libraries that come as Python packages none draws under a policy without inline
// styles (plotly.js 4.1 is refused some of its own), and one redraw of theirs takes longer than the whole answer.

import { el, svg } from "../elements.js";

/** How a number of the logarithmic scales is written. */
export const short = (value) => (value >= 1024 && value % 1024 === 0 ? `${value / 1024}k` : String(value));

/** From a domain to pixels. */
export const linear = ([from, to], [start, end]) => (value) => start + ((value - from) / (to - from)) * (end - start);

/** From a domain to pixels, by the logarithm. */
export function logarithmic([from, to], range) {
  const scale = linear([Math.log(from), Math.log(to)], range);
  return (value) => scale(Math.log(value));
}

/** Round numbers between two bounds, about as many as asked for. */
export function ticks(from, to, about) {
  const rough = (to - from) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((candidate) => candidate >= rough);
  const found = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + 1e-9; i += 1) found.push(Number((i * step).toFixed(6)));
  return found;
}

/** A table of numbers from a header and rows of texts. */
export const tableOf = (header, rows) =>
  el(
    "table", {},
    el("thead", {}, el("tr", {}, header.map((text, i) => el("th", { scope: "col", class: i > 0 && "number" }, text)))),
    el("tbody", {}, rows.map((row) =>
      el("tr", {}, row.map((text, i) => (i === 0 ? el("th", { scope: "row" }, text) : el("td", { class: "number" }, text)))))),
  );

// What is in view is drawn at once, the rest when there is time: a slider is answered by what one looks at.
const later = globalThis.requestIdleCallback ?? ((draw) => setTimeout(draw, 50));
const stale = new Set();
let planned = false;

function drawStale(deadline) {
  planned = false;
  for (const figure of stale) {
    figure.draw();
    if (deadline?.timeRemaining?.() === 0) break;
  }
  if (stale.size > 0) plan();
}

function plan() {
  if (planned) return;
  planned = true;
  later(drawStale, { timeout: 500 });
}

window.addEventListener("beforeprint", () => stale.forEach((figure) => figure.draw()));

/** A figure of the page, whose content is drawn anew with each answer and each width. */
export class Figure {
  #node;
  #fill;
  #data = null;
  #width = 0;
  #inView = true;
  #title;
  #place;
  #caption;
  #details;

  /** fill(place, data, width) draws into `place`; gives { caption, header, rows }. */
  constructor(node, title, fill) {
    this.#node = node;
    this.#fill = fill;
    this.#title = el("h2", {}, title);
    this.#place = el("div", { class: "chart" });
    this.#caption = el("figcaption", {});
    this.#details = el("details", { class: "screen-only" }, el("summary", {}, "As a table"));
    node.replaceChildren(this.#title, this.#place, this.#caption, this.#details);
    this.#details.addEventListener("toggle", () => this.draw());
    new ResizeObserver(() => {
      if (this.#place.clientWidth !== this.#width) this.draw();
    }).observe(this.#place);
    new IntersectionObserver(([entry]) => {
      this.#inView = entry.isIntersecting;
      if (this.#inView && stale.has(this)) this.draw();
    }, { rootMargin: "50px" }).observe(node);
  }

  /** Show this; null hides the figure. */
  show(data, title) {
    this.#data = data;
    this.#node.hidden = data === null;
    if (title !== undefined) this.#title.textContent = title;
    if (this.#inView || this.#width === 0) this.draw();
    else {
      stale.add(this);
      this.#node.setAttribute("aria-busy", "true");
      plan();
    }
  }

  /** Draw the latest data. */
  draw() {
    stale.delete(this);
    this.#node.setAttribute("aria-busy", "false");
    if (this.#data === null) return;
    this.#width = this.#place.clientWidth;
    if (this.#width === 0) return;
    const { caption, header, rows } = this.#fill(this.#place, this.#data, this.#width);
    this.#caption.textContent = caption;
    this.#details.hidden = header === undefined;
    if (header === undefined || !this.#details.open) return;
    const scroll = el("div", { class: "scroll", tabindex: 0, role: "region" }, tableOf(header, rows));
    scroll.setAttribute("aria-label", `${this.#title.textContent}, as a table`);
    this.#details.replaceChildren(this.#details.firstChild, scroll);
  }
}

/** An SVG of this size with a name for screen readers. */
export const drawing = (width, height, label) =>
  svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });

/** A small note that follows the pointer. */
export class Tip {
  constructor(place) {
    this.place = place;
    this.node = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    place.append(this.node);
  }

  show(text, x, y) {
    this.node.textContent = text;
    this.node.hidden = false;
    const room = this.place.clientWidth - this.node.offsetWidth;
    this.node.style.setProperty("left", `${Math.max(0, Math.min(room, x + 12))}px`);
    this.node.style.setProperty("top", `${Math.max(0, y - this.node.offsetHeight - 8)}px`);
  }

  hide() {
    this.node.hidden = true;
  }
}
