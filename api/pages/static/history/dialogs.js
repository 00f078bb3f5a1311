// What opens over the page: a sheet with the whole of one thing, a question before something is lost, labels and note.

import { byId, clearProblem, showProblem } from "../elements.js";
import { ask } from "../fetching.js";

let onSheetClosed = null;

/** Show a title and nodes in the sheet; `closed` is called once it is shut. The focus returns by itself. */
export function openSheet(title, nodes, closed = () => {}) {
  const sheet = byId("sheet");
  onSheetClosed?.();
  onSheetClosed = closed;
  byId("sheet-title").textContent = title;
  byId("sheet-body").replaceChildren(...nodes.flat(Infinity).filter(Boolean));
  if (!sheet.open) sheet.showModal();
  sheet.scrollTop = 0;
  byId("sheet-title").focus();
}

/** Shut it. */
export const closeSheet = () => byId("sheet").close();

/** Ask before `act`, which may fail: then why is told in the dialog. True once it was done, false where it was not. */
export function confirmed({ title, text, yes, no = "Keep it", act }) {
  const dialog = byId("question");
  const button = byId("question-yes");
  const problem = byId("question-problem");
  byId("question-title").textContent = title;
  byId("question-text").textContent = text;
  button.textContent = yes;
  byId("question-no").textContent = no;
  clearProblem(problem);
  return new Promise((resolve) => {
    let done = false;
    button.onclick = async () => {
      button.disabled = true;
      clearProblem(problem);
      try {
        await act();
        done = true;
        dialog.close();
      } catch (error) {
        showProblem(problem, error);
      } finally {
        button.disabled = false;
      }
    };
    dialog.addEventListener("close", () => resolve(done), { once: true });
    dialog.showModal();
    byId("question-no").focus(); // the harmless one
  });
}

/** Delete what a path names; what another deleted meanwhile is deleted all the same. */
export async function deleted(path) {
  try {
    await ask("DELETE", path);
  } catch (error) {
    if (error.status !== 404) throw error;
  }
}

let saveNames = null;

/** Edit the labels and the note of a recommendation; `saved` takes it as it is then. */
export function editNames(item, name, saved) {
  const dialog = byId("naming");
  byId("naming-of").textContent = name;
  byId("naming-labels").value = item.labels.join(", ");
  byId("naming-note").value = item.note;
  clearProblem(byId("naming-problem"));
  saveNames = async () => {
    const body = { labels: namesBetweenCommas(byId("naming-labels").value), note: byId("naming-note").value };
    const now = await ask("PATCH", `/v1/recommendations/${item.id}`, { body });
    dialog.close();
    saved(now);
  };
  dialog.showModal();
  byId("naming-labels").focus();
}

/** Names between commas, without those that are empty. */
export const namesBetweenCommas = (text) =>
  text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");

/** Listen to the dialogs' own buttons. */
export function setUpDialogs() {
  byId("sheet-close").addEventListener("click", closeSheet);
  byId("sheet").addEventListener("close", () => {
    const closed = onSheetClosed;
    onSheetClosed = null;
    byId("sheet-body").replaceChildren();
    closed?.();
  });
  byId("question-no").addEventListener("click", () => byId("question").close());
  byId("naming-cancel").addEventListener("click", () => byId("naming").close());
  byId("naming-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.target.querySelector("[type=submit]");
    const problem = byId("naming-problem");
    clearProblem(problem);
    button.disabled = true;
    try {
      await saveNames();
    } catch (error) {
      showProblem(problem, error);
    } finally {
      button.disabled = false;
    }
  });
}
