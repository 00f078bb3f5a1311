// The page that sends one prompt to two servers, by way of this service, and shows both answers as they come.

import { ArmView } from "./compare/arm_view.js";
import { setUpPrompts } from "./compare/prompts.js";
import { byId, clearProblem, el, showProblem } from "./elements.js";
import { events } from "./fetching.js";
import { count, plural, times } from "./formatting.js";

const ARMS = ["baseline", "speculative"];
const FIELDS = {
  "baseline.url": "baseline-url",
  "speculative.url": "speculative-url",
  "baseline.api_key": "baseline-key",
  "speculative.api_key": "speculative-key",
  model: "model",
  temperature: "temperature",
  max_tokens: "max-tokens",
  prompt: "prompt",
};
const TITLES = { baseline: "Baseline", speculative: "Speculative" };

const views = Object.fromEntries(ARMS.map((name) => [name, new ArmView(byId(name))]));
const sentBefore = new Set();
let running = null; // the AbortController of what is under way

const prompts = setUpPrompts({
  settings({ max_tokens: tokens, temperature }) {
    if (tokens !== null) byId("max-tokens").value = Math.min(tokens, Number(byId("max-tokens").max));
    if (temperature !== null) byId("temperature").value = Math.min(temperature, 2);
  },
});

function asked() {
  const server = (name) => {
    const key = byId(`${name}-key`).value.trim();
    return { url: byId(`${name}-url`).value.trim().replace(/\/+$/, ""), ...(key && { api_key: key }) };
  };
  const model = byId("model").value.trim();
  return {
    baseline: server("baseline"),
    speculative: server("speculative"),
    prompt: prompts.messages(),
    ...(model && { model }),
    temperature: byId("temperature").valueAsNumber,
    max_tokens: byId("max-tokens").valueAsNumber,
    order: document.querySelector("[name=order]:checked").value,
  };
}

/** What is missing or wrong, as [field, sentence]; null where all is there. */
function fault(body) {
  for (const name of ARMS) {
    if (!body[name].url) return [`${name}-url`, `the address of the ${name} server is missing; expected one such as http://127.0.0.1:8001`];
  }
  const { validity } = byId("temperature");
  if (!validity.valid && !validity.stepMismatch) return ["temperature", "temperature: expected a number from 0 to 2"];
  const most = byId("max-tokens");
  if (!most.validity.valid || Number.isNaN(body.max_tokens)) {
    return ["max-tokens", `most tokens: expected a whole number from 1 to ${count(Number(most.max))}`];
  }
  return prompts.empty ? ["prompt", "there is no prompt; expected some text"] : null;
}

function refuse(field, message) {
  showProblem(byId("problem"), { message });
  const input = byId(field);
  if (input === null) return;
  if (input.closest("details") !== null) input.closest("details").open = true;
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-errormessage", "problem");
  input.focus();
}

function clear() {
  clearProblem(byId("problem"));
  for (const input of document.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-errormessage");
  }
}

const say = (text) => {
  byId("status").textContent = text;
};

function note(text) {
  byId("notes").append(el("li", {}, text));
  byId("notes").hidden = false;
}

function showSpeedup(speedup, final) {
  const big = byId("speedup");
  if (!speedup) return;
  const { end_to_end: value, decode, tokens } = speedup;
  big.textContent = times(value);
  big.className = `big number ${value >= 1.005 ? "faster" : value < 0.995 ? "slower" : ""}`;
  const alone = decode === null ? "" : `; ${times(decode)} from the first token on`;
  byId("speedup-told").textContent =
    `Speedup${final ? "" : " so far"}: time of the baseline over time with speculation for the same ${plural(tokens, "token")} of one request${alone}.`;
}

function prepare(body) {
  clear();
  for (const view of Object.values(views)) view.reset({ maxTokens: body.max_tokens });
  byId("speedup").textContent = "–";
  byId("speedup").className = "big number";
  byId("speedup-told").textContent = "Asking both servers what they are …";
  byId("same-told").textContent = "";
  byId("sharing").hidden = true;
  byId("notes").hidden = true;
  byId("notes").replaceChildren();
  const once = JSON.stringify([body.baseline.url, body.speculative.url, body.prompt]);
  if (sentBefore.has(once)) {
    note("This prompt was sent before: the servers' prefix caches know it, and so does the tree of suffix decoding.");
  }
  sentBefore.add(once);
  const link = new URLSearchParams({ baseline: body.baseline.url, speculative: body.speculative.url });
  history.replaceState(null, "", `?${link}`);
}

function handlers(body) {
  let speedup = null;
  const { temperature, order } = body;
  return {
    server: (told) => {
      views[told.arm].server(told);
      if (order === "in_turn" && told.arm === "speculative") views.speculative.become("waiting");
    },
    sharing: ({ kind, text }) => {
      byId("sharing").textContent = text;
      byId("sharing").className = kind === "one_cpu" || kind === "one_gpu" ? "notice doubt" : "notice";
      byId("sharing").hidden = false;
    },
    note: ({ text }) => note(text),
    started: ({ arm }) => {
      views[arm].become("sent");
      byId("speedup-told").textContent = "Waiting for the first tokens …";
    },
    text: (told) => views[told.arm].text(told),
    figures: (told) => {
      for (const arm of ARMS) if (told[arm]) views[arm].figures(told[arm]);
      speedup = told.speedup ?? speedup;
      showSpeedup(speedup, false);
    },
    acceptance: (told) => views[told.arm].acceptance(told),
    marks: (told) => views[told.arm].marks(told),
    finished: (told) => {
      views[told.arm].finished(told);
      say(`${TITLES[told.arm]} server finished.`);
    },
    failed: ({ arm, text }) => views[arm].failed(text),
    end: ({ same_text: same, problem }) => {
      if (problem) showProblem(byId("problem"), { message: problem });
      const whole = ARMS.every((arm) => views[arm].state === "finished");
      showSpeedup(speedup, whole);
      if (!speedup) {
        byId("speedup-told").textContent = whole
          ? "The servers do not count their tokens while they answer, so there is no speedup at the same number of tokens."
          : "There is no speedup without both answers.";
      }
      if (same !== null) {
        byId("same-told").textContent = same
          ? "Both answers are the same text."
          : temperature > 0
            ? "The answers differ, as sampling has it."
            : "The answers differ: sums in another order break ties otherwise, which is usual in half precision.";
      }
      say(whole && speedup ? `Both finished. Speedup for the same tokens: ${times(speedup.end_to_end)}.` : "Ended.");
    },
  };
}

async function send() {
  if (running !== null) return;
  const body = asked();
  clear();
  const wrong = fault(body);
  if (wrong !== null) {
    refuse(...wrong);
    return;
  }
  prepare(body);
  running = new AbortController();
  busy(true);
  byId("results").scrollIntoView({ block: "start" });
  say("Sent to both servers.");
  const handle = handlers(body);
  let ended = false;
  try {
    for await (const { event, data } of events("/v1/comparisons", { method: "POST", body, signal: running.signal })) {
      handle[event]?.(JSON.parse(data));
      ended ||= event === "end";
    }
    if (!ended) showProblem(byId("problem"), { message: "the service broke off; is it still running?" });
  } catch (error) {
    if (running.signal.aborted) {
      say("Stopped.");
    } else if (error.errors?.length && FIELDS[error.errors[0].field]) {
      refuse(FIELDS[error.errors[0].field], error.message);
    } else {
      showProblem(byId("problem"), { message: error.status === undefined ? "the service broke off; is it still running?" : error.message });
    }
    byId("speedup-told").textContent = running.signal.aborted ? "Stopped." : "Nothing came of it; see above.";
  } finally {
    for (const view of Object.values(views)) view.end("stopped");
    running = null;
    busy(false);
  }
}

function busy(on) {
  byId("stop").disabled = !on;
  byId("send").disabled = on;
  byId("send-next").disabled = on;
  if (on) byId("stop").focus();
  else if (document.activeElement === byId("stop") || document.activeElement === document.body) byId("send").focus({ preventScroll: true });
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("form").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  send();
});
byId("send-next").addEventListener("click", () => {
  prompts.next();
  send();
});
byId("stop").addEventListener("click", () => running?.abort());

const given = new URLSearchParams(location.search);
for (const name of ARMS) byId(`${name}-url`).value = given.get(name) ?? "";
