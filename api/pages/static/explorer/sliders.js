// The sliders: a scale of values that people say, a readout, and the way back to what the prompts tell.

import { el } from "../elements.js";
import { count, plural } from "../formatting.js";

/** Four steps to a doubling, rounded to two figures. */
function doublings(from, to) {
  const found = new Set();
  for (let i = Math.log2(from) * 4; i <= Math.log2(to) * 4 + 1e-9; i += 1) {
    const value = 2 ** (i / 4);
    const unit = i % 4 === 0 ? 1 : 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
    found.add(Math.round(value / unit) * unit);
  }
  return [...found].sort((a, b) => a - b);
}

const CONCURRENCY = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512];

/** What can be moved: its name in the state, its scale, how a value is told, where the answer has its estimate. */
export const SLIDERS = [
  {
    name: "concurrency", title: "Requests at once", values: CONCURRENCY, told: count, spoken: (v) => plural(v, "request"),
    estimate: (workload) => workload.concurrency, from: "assumed",
  },
  {
    name: "input", title: "Prompt tokens", values: doublings(16, 131072), told: count,
    spoken: (v) => plural(v, "token"), estimate: (workload) => workload.input_tokens, from: "estimated",
  },
  {
    name: "output", title: "Output tokens", values: doublings(8, 16384), told: count, spoken: (v) => plural(v, "token"),
    estimate: (workload) => workload.output_tokens, from: "estimated",
  },
  {
    name: "temperature", title: "Temperature", values: Array.from({ length: 41 }, (_, i) => i / 20),
    told: (v) => v.toFixed(2), spoken: (v) => v.toFixed(2), estimate: (workload) => workload.temperature,
    from: "estimated",
  },
  {
    name: "k", title: "Draft tokens (k)", values: [1, 2, 3, 4, 5, 6, 7, 8], told: String,
    spoken: (v) => plural(v, "draft token"), estimate: (_, candidate) => candidate.num_speculative_tokens, from: "best",
  },
];

const nearest = (values, value) =>
  values.reduce((best, one, index) => (Math.abs(one - value) < Math.abs(values[best] - value) ? index : best), 0);

class Slider {
  constructor(about, changed) {
    this.about = about;
    this.value = null;
    const id = `slider-${about.name}`;
    this.range = el("input", { type: "range", id, min: 0, max: about.values.length - 1, step: 1, value: 0 });
    this.output = el("output", { for: id });
    this.from = el("span", { class: "from" });
    this.reset = el("button", { type: "button", class: "quiet", hidden: true }, "Reset");
    this.reset.setAttribute("aria-label", `Reset ${about.title}`);
    this.range.addEventListener("input", () => {
      this.set(about.values[Number(this.range.value)]);
      changed(about.name, this.value);
    });
    this.reset.addEventListener("click", () => {
      this.set(null);
      changed(about.name, null);
      this.range.focus();
    });
    this.node = el(
      "div", { class: "slider" },
      el("div", { class: "row" }, el("label", { for: id }, about.title),
        el("span", { class: "row" }, this.from, this.output, this.reset)),
      this.range,
    );
    this.#tell(null);
  }

  /** Take a value over; null: what the answer says. */
  set(value) {
    this.value = value;
    this.reset.hidden = value === null;
    if (value !== null) {
      this.range.value = nearest(this.about.values, value);
      this.#tell(value);
    } else this.from.textContent = this.about.from;
  }

  /** What the answer took where nothing was given. */
  answered(answer) {
    if (this.value !== null) return;
    const value = this.about.estimate(answer.workload, answer.candidate);
    this.range.value = nearest(this.about.values, value);
    this.#tell(value);
  }

  #tell(value) {
    this.from.textContent = this.value === null && value !== null ? this.about.from : "";
    this.output.value = value === null ? "–" : this.about.told(value);
    const spoken = value === null ? "not known yet" : this.about.spoken(value);
    this.range.setAttribute("aria-valuetext", this.value === null && value !== null ? `${spoken}, ${this.about.from}` : spoken);
  }
}

/** All sliders in `container`; `changed(name, value)` is called while one moves. */
export function makeSliders(container, changed) {
  const sliders = SLIDERS.map((about) => new Slider(about, changed));
  container.replaceChildren(...sliders.map((slider) => slider.node));
  return {
    set: (state) => sliders.forEach((slider) => slider.set(state[slider.about.name])),
    answered: (answer) => sliders.forEach((slider) => slider.answered(answer)),
  };
}
