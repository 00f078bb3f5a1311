// The explorer: what is asked, the live answers, and the link that leads back here.

import { byId, clearProblem, showProblem } from "../elements.js";
import { Problem, ask } from "../fetching.js";
import { plural } from "../formatting.js";
import { drafters, fillCatalogs } from "./catalogs.js";
import { Live } from "./live.js";
import { featuresOf } from "./prompts.js";
import { makeResults } from "./results.js";
import { makeSliders } from "./sliders.js";
import { EMPTY, complete, linkOf, requestOf, stateOf } from "./state.js";

const EXAMPLE = { target: "meta-llama/Llama-3.1-8B-Instruct", gpu: "H200" };
const page = document.querySelector(".explorer");
let state = { ...EMPTY };
let latest = null; // the last answer, for what is copied and kept

const results = makeResults((concurrency, input) => change({ concurrency, input }));
const sliders = makeSliders(byId("sliders"), (name, value) => change({ [name]: value }));

const live = new Live({
  ask: (asked, signal) => ask("POST", "/v1/explorations", { body: requestOf(asked, drafters), signal }),
  shown(exploration, asked) {
    latest = { exploration, asked };
    refusals();
    results.show(exploration, asked);
    sliders.answered(exploration.recommendation);
    speak(exploration.headline);
  },
  failed(error) {
    if (error instanceof Problem) refusals(error);
    else throw error;
  },
  busy: (busy) => byId("answer").setAttribute("aria-busy", String(busy)),
});

/* What was refused stands beside the field that it is about, else above the answer. */
const FIELDS = { "deployment.target": "target", "deployment.gpu": "gpu", "deployment.speculation": "draft" };

function refusals(error = null) {
  for (const id of Object.values(FIELDS)) byId(id).removeAttribute("aria-invalid");
  clearProblem(byId("target-problem"));
  clearProblem(byId("answer-problem"));
  byId("results").classList.toggle("stale", error !== null); // what stands there was of something else
  if (error === null) return;
  const place = error.errors[0]?.field ?? "";
  const found = Object.entries(FIELDS).find(([field]) => place.startsWith(field));
  if (found !== undefined) {
    byId(found[1]).setAttribute("aria-invalid", "true");
    byId(found[1]).closest("label").after(byId("target-problem")); // in sight of who typed it
  }
  showProblem(byId(found === undefined ? "answer-problem" : "target-problem"), error);
}

/* Screen readers are told the sentence once a slider rests. */
let speaking = 0;
function speak(text) {
  clearTimeout(speaking);
  speaking = setTimeout(() => {
    byId("spoken").textContent = text;
  }, 800);
}

let writing = 0;
function writeLink() {
  clearTimeout(writing); // browsers refuse a page that writes its address a hundred times in a few seconds
  writing = setTimeout(async () => {
    const link = await linkOf(state);
    history.replaceState(null, "", link === "" ? location.pathname : `#${link}`);
  }, 250);
}

function change(parts, { afresh = false } = {}) {
  state = { ...state, ...parts };
  byId("kept") && (byId("kept").textContent = "");
  sliders.set(state);
  writeLink();
  if (complete(state)) live.change(state, { afresh });
}

/* Prompts */
async function take(file, source) {
  clearProblem(byId("prompts-problem"));
  const told = byId("prompts-read");
  told.hidden = false;
  told.textContent = `Reading ${source} …`;
  try {
    const features = await featuresOf(file);
    told.textContent = tellPrompts(features, source);
    change({ features, source }, { afresh: true });
    return true;
  } catch (error) {
    told.hidden = true;
    if (!(error instanceof Problem)) throw error;
    showProblem(byId("prompts-problem"), error);
    return false;
  }
}

const tellPrompts = (features, source) => `${plural(features.prompts, "prompt")} of ${source}, read as ${features.format}.`;

async function takeExample() {
  const response = await fetch(page.dataset.example);
  await take(new File([await response.blob()], "example.jsonl"), "the example");
}

/* What an answer lacks most often is one move away. */
function setUpLoad() {
  byId("say-load").addEventListener("click", () => {
    const slider = byId("slider-concurrency");
    slider.scrollIntoView({ block: "center" });
    slider.focus();
  });
}

function setUpPrompts() {
  const drop = byId("drop");
  byId("file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file !== undefined) take(file, file.name);
    event.target.value = ""; // the same file may be chosen again
  });
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file !== undefined) take(file, file.name);
  });
  // A file that misses its place would replace the page.
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
  byId("use-pasted").addEventListener("click", () => {
    const text = byId("pasted").value;
    if (text.trim() === "") {
      showProblem(byId("prompts-problem"), new Problem({ detail: "nothing is pasted; expected at least one prompt" }));
    } else take(new File([text], "pasted"), "what was pasted");
  });
  byId("use-example").addEventListener("click", takeExample);
  byId("try-example").addEventListener("click", async () => {
    for (const [name, value] of Object.entries(EXAMPLE)) if (state[name] === null) byId(name).value = state[name] = value;
    await takeExample();
  });
}

/* The deployment */
const TEXTS = { target: "target", gpu: "gpu", draft: "draft", kv: "kv", objective: "objective" };
const NUMBERS = { tp: "tp", "max-len": "maxLen", memory: "memory", minimum: "minimum" };

function setUpDeployment() {
  for (const [id, name] of Object.entries(TEXTS)) {
    byId(id).addEventListener("change", (event) => {
      const value = event.target.value.trim() || null;
      if (value === state[name]) return;
      if (name === "target") dropConfig();
      change({ [name]: value }, { afresh: true });
    });
  }
  for (const [id, name] of Object.entries(NUMBERS)) {
    byId(id).addEventListener("input", (event) => {
      if (!event.target.validity.valid) return;
      change({ [name]: event.target.value === "" ? null : event.target.valueAsNumber });
    });
  }
  byId("use-config").addEventListener("click", useConfig);
  byId("drop-config").addEventListener("click", () => {
    dropConfig();
    byId("target").value = "";
    change({ target: null });
  });
  byId("asked").addEventListener("submit", (event) => event.preventDefault());
}

function dropConfig() {
  state = { ...state, config: null };
  byId("drop-config").hidden = true;
}

function useConfig() {
  const problem = byId("config-problem");
  clearProblem(problem);
  let config = null;
  try {
    config = JSON.parse(byId("config").value);
  } catch (error) {
    showProblem(problem, new Problem({ detail: `this is no JSON; expected a config.json; ${error.message}` }));
    return;
  }
  if (config === null || typeof config !== "object" || Array.isArray(config)) {
    showProblem(problem, new Problem({ detail: "this is no JSON object; expected a config.json" }));
    return;
  }
  const name = String(config._name_or_path || config.model_type || "own model");
  byId("target").value = name;
  byId("drop-config").hidden = false;
  change({ target: name, config }, { afresh: true });
}

/* What is done with an answer */
async function copy(text, button) {
  await navigator.clipboard.writeText(text);
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => {
    button.textContent = before;
  }, 1500);
}

function setUpActions() {
  byId("copy-command").addEventListener("click", (event) => copy(latest.exploration.command, event.target));
  byId("copy-link").addEventListener("click", async (event) => {
    const link = new URL(`#${await linkOf(state)}`, location.href);
    await copy(link.href, event.target);
  });
  byId("keep")?.addEventListener("click", async () => {
    const kept = byId("kept");
    try {
      const { id } = await ask("POST", "/v1/recommendations", { body: requestOf(latest.asked, drafters) });
      kept.textContent = `Kept as ${id.slice(0, 12)}; see History.`;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      showProblem(byId("answer-problem"), error);
    }
  });
}

/* Links */
async function followLink() {
  const text = location.hash.slice(1);
  if (text === "") return;
  try {
    state = await stateOf(text);
  } catch {
    showProblem(byId("answer-problem"), new Problem({ detail: "this link cannot be read; it may have been cut off" }));
    return;
  }
  for (const [id, name] of Object.entries({ ...TEXTS, ...NUMBERS })) byId(id).value = state[name] ?? "";
  byId("drop-config").hidden = state.config === null;
  if (state.config !== null) byId("config").value = JSON.stringify(state.config, null, 1);
  sliders.set(state);
  const told = byId("prompts-read");
  told.hidden = state.features === null;
  if (state.features !== null) told.textContent = tellPrompts(state.features, state.source ?? "a link");
  if (complete(state)) live.change(state, { afresh: true });
}

async function loadCatalogs() {
  try {
    await fillCatalogs();
    clearProblem(byId("target-problem"));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    showProblem(byId("target-problem"), error);
  }
}

setUpPrompts();
setUpLoad();
setUpDeployment();
setUpActions();
window.addEventListener("hashchange", followLink);
document.addEventListener("keychange", () => {
  loadCatalogs();
  if (complete(state)) live.change(state);
});
await loadCatalogs();
await followLink();
