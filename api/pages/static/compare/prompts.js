// Which prompt is sent: of an example's list, or the next of the reader's own sample; always open to editing.

import { byId, clearProblem, el, showProblem } from "../elements.js";
import { ask } from "../fetching.js";
import { count, plural } from "../formatting.js";
import { examples } from "./examples.js";

const TABS = ["structured", "creative", "long", "own"];
const MOST_BYTES = 32 * 2 ** 20; // as the service takes by default
const ROLES = { system: "System", user: "User", assistant: "Assistant", tool: "Tool" };

const asMessages = (text) => ({ messages: [{ role: "user", content: text }], max_tokens: null, temperature: null });

/** Tabs, sample and text; `settings` is told what a prompt of the sample asks for itself. */
export function setUpPrompts({ settings }) {
  const tabs = TABS.map(byId);
  const text = byId("prompt");
  const edited = new Map(); // what was typed over a prompt stays while one looks at others
  const at = Object.fromEntries(TABS.map((tab) => [tab, 0]));
  let tab = TABS[0];
  let sample = [];

  const list = () => (tab === "own" ? sample : examples(tab, Number(byId("long-words").value)).map(asMessages));
  const place = () => `${tab}/${tab === "long" ? byId("long-words").value : ""}/${at[tab]}`;

  function show() {
    const prompts = list();
    const prompt = prompts[at[tab]] ?? asMessages("");
    const last = prompt.messages.at(-1);
    const earlier = prompt.messages.slice(0, -1);
    text.value = edited.get(place()) ?? last.content;
    byId("earlier").hidden = earlier.length === 0;
    byId("earlier-told").textContent = `${plural(earlier.length, "earlier turn")} sent with it`;
    byId("earlier-turns").replaceChildren(
      ...earlier.map(({ role, content }) => el("p", {}, el("b", {}, ROLES[role] ?? role), content)),
    );
    byId("prompt-label").textContent = last.role === "user" ? "Prompt" : `Prompt (the last turn: ${last.role})`;
    byId("own-controls").hidden = tab !== "own";
    byId("long-controls").hidden = tab !== "long";
    byId("steps").hidden = prompts.length < 2;
    byId("send-next").hidden = prompts.length < 2;
    byId("position").textContent = `${at[tab] + 1} of ${count(prompts.length)}`;
    settings(prompt);
  }

  function choose(name, { focus = false } = {}) {
    tab = name;
    for (const [index, button] of tabs.entries()) {
      const chosen = TABS[index] === name;
      button.setAttribute("aria-selected", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
      if (chosen && focus) button.focus();
    }
    byId("panel").setAttribute("aria-labelledby", name);
    show();
  }

  for (const button of tabs) {
    button.addEventListener("click", () => choose(button.id));
    button.addEventListener("keydown", (event) => {
      const now = TABS.indexOf(button.id);
      const to = { ArrowRight: now + 1, ArrowLeft: now - 1 + TABS.length, Home: 0, End: TABS.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      choose(TABS[to % TABS.length], { focus: true });
    });
  }
  const step = (by) => {
    const length = list().length;
    at[tab] = (at[tab] + by + length) % length;
    show();
  };
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("long-words").addEventListener("change", show);
  text.addEventListener("input", () => edited.set(place(), text.value));

  async function read(content, name) {
    const problem = byId("own-problem");
    clearProblem(problem);
    choose("own");
    const told = byId("own-told");
    if (content.size > MOST_BYTES) {
      const size = `${(content.size / 2 ** 20).toFixed(0)} MiB`;
      showProblem(problem, { message: `the file is too large; expected at most 32 MiB; got ${size}; send a sample of it` });
      return;
    }
    told.textContent = `Reading ${name} …`;
    try {
      const path = `/v1/comparisons/prompts?name=${encodeURIComponent(name.slice(0, 200))}`;
      const found = await ask("POST", path, { file: content });
      sample = found.prompts;
      at.own = 0;
      for (const key of [...edited.keys()]) if (key.startsWith("own/")) edited.delete(key);
      const of = found.usable > sample.length ? ` of ${count(found.usable)}, chosen at random` : "";
      told.textContent = `${plural(sample.length, "prompt")}${of} from ${name}: ${found.format}.`;
      show();
    } catch (error) {
      told.textContent = sample.length > 0 ? "The earlier sample stays." : "No sample yet.";
      showProblem(problem, error);
    }
  }

  byId("file").addEventListener("change", async ({ target }) => {
    const [file] = target.files;
    if (file) await read(file, file.name);
    target.value = ""; // the same file again is a change, too
  });
  byId("paste-read").addEventListener("click", () => read(new Blob([byId("paste").value]), "what was pasted"));
  const drop = byId("drop");
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", async (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    const [file] = event.dataTransfer.files;
    const pasted = event.dataTransfer.getData("text/plain");
    if (file) await read(file, file.name);
    else if (pasted) await read(new Blob([pasted]), "what was dropped");
  });

  choose(tab);
  return {
    /** The messages to send, with the last turn as it stands in the box. */
    messages() {
      const prompt = list()[at[tab]] ?? asMessages("");
      return [...prompt.messages.slice(0, -1), { role: prompt.messages.at(-1).role, content: text.value }];
    },
    next: () => step(1),
    get empty() {
      return text.value.trim() === "";
    },
  };
}
