// An answer on the page: the sentence and its figures, the charts, the table, the command.

import { drawBars, drawEffects, drawStacks } from "../charts/bars.js";
import { drawCurve } from "../charts/curve.js";
import { Figure } from "../charts/frame.js";
import { drawHeat } from "../charts/heat.js";
import { byId, el } from "../elements.js";
import { chance, count, gib, methodWith, percent, plural, sentence, times, words } from "../formatting.js";
import { gpuOf } from "./state.js";

const within = ({ low, high }) => `${low.toFixed(2)} to ${high.toFixed(2)}`;
const BASIS = { predicted: "Predicted", measured: "Measured", mixed: "Predicted, with what was measured" };

function verdict({ headline, recommendation: answer }, minimum) {
  const badge = byId("badge");
  const kind = !answer.decisive ? "doubt" : answer.verdict === "enable" ? "good" : "bad";
  badge.className = `badge ${kind}`;
  badge.textContent = `${answer.verdict === "enable" ? "Enable" : "Leave off"}${answer.decisive ? "" : ", not decisive"}`;
  byId("basis").textContent = BASIS[answer.basis];
  byId("verdict").textContent = headline;
  const { speedup, acceptance, probability } = answer;
  const figures = [
    ["Throughput, end to end", times(speedup.end_to_end.value), within(speedup.end_to_end)],
    ["Time per output token", times(speedup.tpot.value), within(speedup.tpot)],
    [`Chance of ${minimum}x or more`, chance(probability), answer.decisive ? "decisive" : "a probe is worth its time"],
    ["Tokens a step", acceptance.tokens_per_step.value.toFixed(2), within(acceptance.tokens_per_step)],
  ];
  byId("figures").replaceChildren(...figures.map(([name, figure, more]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, figure, el("small", {}, more)))));
}

/** Up to how many at once it pays without a gap; null where that is not to be marked. */
function paysUpTo({ enable_ranges: ranges, crossover_reason: reason }) {
  if (ranges.length === 0 || ranges[0][0] > 1) return null;
  return ranges.length > 1 || reason === "found" ? ranges[0][1] : null;
}

function curveOf({ recommendation: answer, crossover }, objective, minimum) {
  return {
    points: answer.curve.map((point) => ({ concurrency: point.concurrency, ...point[objective] })),
    minimum,
    here: answer.workload.concurrency,
    crossover: paysUpTo(answer),
    caption: `${crossover} The band holds the true value with 90%.`,
  };
}

function mapOf({ recommendation: answer, map }, minimum, chosen) {
  return {
    map, minimum, chosen,
    here: { concurrency: answer.workload.concurrency, input: answer.workload.input_tokens },
    caption: `Of ${methodWith(answer.candidate.method, answer.candidate.draft)} with k = ${answer.candidate.num_speculative_tokens}, `
      + `all else as asked. The thick line parts what pays from what does not; right of a dashed one requests wait for the `
      + `cache. The circle is your traffic, where it lies on the map; a click on a cell moves it there.`,
  };
}

function positionsOf({ acceptance }) {
  let reached = acceptance.draft_share;
  const rows = acceptance.per_position.map((value, index) => {
    reached *= value;
    return { label: `Draft token ${index + 1}`, value, figure: `${percent(value)} · ${percent(reached)} of steps` };
  });
  const how = acceptance.basis === "measured" ? "Measured" : "Predicted";
  return {
    rows, most: 1, header: ["position", "accepted if reached · steps that get so far"],
    caption: `${how}: accepted where those before it were, and the share of steps that get so far. `
      + `${percent(acceptance.draft_share)} of steps draft.`,
  };
}

function classesOf({ acceptance, workload }) {
  const entries = Object.entries(acceptance.by_structure);
  if (entries.length === 0) return null;
  return {
    rows: entries.map(([name, length]) => ({
      label: `${words(name)} (${percent(workload.structure[name] ?? 0)})`, value: length.value, low: length.low,
      high: length.high, figure: length.value.toFixed(2),
    })),
    most: Math.max(...entries.map(([, length]) => length.high)), header: ["kind of prompt (share)", "acceptance length"],
    caption: "Tokens that a step with a draft yields, of each kind alone; the line is its 90% interval.",
  };
}

function memoryOf({ memory, candidate }) {
  const stack = (name, drafter, cache) => ({
    name,
    parts: [
      { name: "target's weights", kind: "weights", bytes: memory.target_bytes },
      { name: "drafter", kind: "drafter", bytes: drafter },
      { name: "activations, graphs and the rest", kind: "working",
        bytes: Math.max(0, memory.requested_bytes - memory.target_bytes - drafter - cache) },
      { name: "KV cache", kind: "kv", bytes: cache },
    ],
  });
  return {
    stacks: [
      stack("Without speculation", 0, memory.kv_bytes_without),
      stack(`With ${methodWith(candidate.method, candidate.draft)}`, memory.drafter_bytes, memory.kv_bytes),
    ],
    whole: memory.requested_bytes,
    caption: `Of ${gib(memory.requested_bytes)} for vLLM on each GPU. The cache holds ${count(memory.kv_tokens)} tokens instead `
      + `of ${count(memory.kv_tokens_without)}: ${plural(memory.concurrency, "request")} of this length instead of `
      + `${count(memory.concurrency_without)}.`,
  };
}

function reasonsOf({ reasons }) {
  if (reasons.length === 0) return null;
  return {
    rows: reasons.map(({ effect, text }) => ({
      label: sentence(text), effect, figure: `${effect >= 0 ? "+" : "−"}${Math.abs(effect).toFixed(2)}x`,
    })),
    caption: "What would change the speedup, largest first: to the right it would rise, to the left fall.",
  };
}

function alternatives(answer) {
  const { candidate, speedup, acceptance, memory } = answer;
  const cells = (one, why) => [
    [methodWith(one.method, one.draft), why], String(one.k), times(one.end_to_end.value), within(one.end_to_end),
    times(one.tpot.value), chance(one.probability), one.tokens.toFixed(2), gib(one.bytes),
  ];
  const chosen = cells({
    ...candidate, k: candidate.num_speculative_tokens, ...speedup, probability: answer.probability,
    tokens: acceptance.tokens_per_step.value, bytes: memory.drafter_bytes,
  }, answer.verdict === "enable" ? "The best, by its lower bound." : "The best, and not worth it.");
  const same = (other) => other.method === candidate.method && other.draft === candidate.draft
    && other.num_speculative_tokens === candidate.num_speculative_tokens;
  const others = answer.alternatives.filter((other) => !same(other)).map((other) => cells({
    ...other, k: other.num_speculative_tokens, ...other.speedup, tokens: other.tokens_per_step, bytes: other.drafter_bytes,
  }, sentence(other.text.includes(": ") ? other.text.slice(other.text.indexOf(": ") + 2) : other.text)));
  const header = ["Method", "k", "end to end", "90% interval", "per token", "chance", "tokens a step", "weights"];
  byId("alternatives").replaceChildren(
    el("thead", {}, el("tr", {}, header.map((text, i) => el("th", { scope: "col", class: i > 0 && "number" }, text)))),
    el("tbody", {}, [chosen, ...others].map(([[name, why], ...numbers], i) => el("tr", { class: i === 0 && "chosen" },
      el("th", { scope: "row" }, name, el("small", {}, why)),
      numbers.map((text) => el("td", { class: "number" }, text))))),
  );
}

function rests(answer, { target, gpu, tp }) {
  const { workload } = answer;
  const shares = Object.entries(workload.structure).filter(([, share]) => share >= 0.01);
  const lines = [
    `${target} on ${tp === null ? "" : `${tp} times `}${gpuOf(gpu).name ?? gpu}, ${plural(workload.concurrency, "request")} at once.`,
    `${plural(workload.prompts, "prompt")}, read as ${workload.format}.`,
    `They ask for ${shares.map(([name, share]) => `${words(name)} ${percent(share)}`).join(", ")}.`,
    `Prompts of ${count(workload.input_tokens)} tokens (95% below ${count(workload.input_tokens_p95)}), answers of `
      + `${count(workload.output_tokens)}; ${percent(workload.overlap)} of an answer can be copied from what stands before it; `
      + `prefix caching serves ${percent(workload.cached_prefix_share)} of the prompt tokens.`,
    ...Object.entries(workload.skipped).map(([reason, number]) => `Skipped ${count(number)}: ${reason}.`),
    ...workload.notes.map(sentence),
    ...(workload.estimated.length > 0 ? [`Estimated: ${workload.estimated.join("; ")}.`] : []),
    `Models: ${answer.model_version}.`,
  ];
  byId("rests").replaceChildren(el("ul", { class: "plain" }, lines.map((line) => el("li", {}, line))));
}

/** The results' part of the page; `chosen(concurrency, input)` is called for a cell of the map. */
export function makeResults(chosen) {
  const figures = {
    curve: new Figure(byId("curve"), "Speedup by concurrency", drawCurve),
    map: new Figure(byId("map"), "Concurrency and context", drawHeat),
    positions: new Figure(byId("positions"), "Accepted by position", drawBars),
    classes: new Figure(byId("classes"), "Acceptance by kind of prompt", drawBars),
    memory: new Figure(byId("memory-plan"), "VRAM of one GPU", drawStacks),
    reasons: new Figure(byId("reasons"), "Why", drawEffects),
  };
  return {
    show(exploration, state) {
      const { recommendation: answer } = exploration;
      const minimum = state.minimum ?? 1.05;
      const objective = state.objective ?? "end_to_end";
      byId("empty").hidden = true;
      byId("results").hidden = false;
      verdict(exploration, minimum);
      byId("load-assumed").hidden = !answer.warnings.some((warning) => warning.code === "concurrency_assumed");
      const by = objective === "tpot" ? "per output token" : "end to end";
      figures.curve.show(curveOf(exploration, objective, minimum), `Speedup ${by} by concurrency`);
      figures.map.show(mapOf(exploration, minimum, chosen));
      figures.positions.show(positionsOf(answer));
      figures.classes.show(classesOf(answer));
      figures.memory.show(memoryOf(answer));
      figures.reasons.show(reasonsOf(answer));
      alternatives(answer);
      byId("command").textContent = exploration.command;
      byId("warnings-card").hidden = answer.warnings.length === 0;
      byId("warnings").replaceChildren(...answer.warnings.map((warning) => el("li", {}, sentence(warning.text))));
      rests(answer, state);
    },
  };
}
