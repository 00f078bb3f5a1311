// What a sheet shows before it has its content, and where it cannot have it.

import { byId, el, showProblem } from "../elements.js";

/** While it is read. */
export const loading = () => el("p", { role: "status", class: "told" }, "Loading…");

/** It could not be read: why, and a button to try again. */
export function failed(error, again) {
  const text = el("p", { role: "alert" });
  const button = el("button", { type: "button", class: "quiet small", onclick: again }, "Try again");
  byId("sheet-body").replaceChildren(el("div", { class: "notice error" }, text, error.status === 404 ? null : button));
  showProblem(text, error);
}
