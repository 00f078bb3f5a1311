// Small parts that several lists and views of the history show: moments, verdicts, downloads, JSON.

import { clearProblem, el, showProblem } from "../elements.js";
import { request } from "../fetching.js";
import { ago, methodName, times } from "../formatting.js";

const whole = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** A moment: how long ago, and the whole of it in this browser's zone. */
export const moment = (iso) => el("time", { datetime: iso, title: whole.format(new Date(iso)) }, ago(iso));

/** A moment in full. */
export const wholeMoment = (iso) => el("time", { datetime: iso }, whole.format(new Date(iso)));

/** The time of day alone. */
export const clockTime = (iso) => el("time", { datetime: iso }, clock.format(new Date(iso)));

/** A verdict, with its doubt in words; null for none. */
export function verdictBadge(verdict, decisive = true) {
  if (verdict === null) return el("span", { class: "badge plain" }, "no verdict");
  if (!decisive) return el("span", { class: "badge doubt" }, `leans to ${verdict}`);
  return el("span", { class: verdict === "enable" ? "badge good" : "badge plain" }, verdict);
}

/** What a recommendation proposes: "EAGLE-3 (its head), k 4"; the drafter without its organisation. */
export const candidate = ({ method, draft, num_speculative_tokens: k }) =>
  `${methodName(method)}${draft ? ` (${draft.split("/").pop()})` : ""}, k\u00a0${k}`;

/** One line that tells a recommendation from others, for names of controls and for questions. */
export const recommendationName = (item) =>
  `${item.target} on ${item.gpu}, ${item.verdict} at ${times(item.end_to_end)}, ${ago(item.created_at)}`;

/** Terms and what they are, in two columns; terms without a value are left out. */
export function facts(pairs) {
  const told = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el(
    "dl",
    {},
    told.map(([term, value]) => [el("dt", {}, term), el("dd", {}, value)]),
  );
}

/** A column's heading; one without a name is no heading. */
export const heading = (text, kind = null) => (text ? el("th", { scope: "col", class: kind }, text) : el("td", {}));

/** A table: `numbers` are the columns of numbers. Cells are texts or nodes. */
export function table(caption, header, rows, { numbers = [], hideCaption = true } = {}) {
  const kind = (i) => (numbers.includes(i) ? "number" : null);
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: hideCaption ? "unseen" : null }, caption),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          header.map((text, i) => heading(text, kind(i))),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((cells) =>
          el(
            "tr",
            {},
            cells.map((cell, i) => el("td", { class: kind(i) }, cell)),
          ),
        ),
      ),
    ),
  );
}

/** Closed at first: JSON as it is. */
export function jsonDetails(summary, value) {
  const text = el("pre", { class: "json", tabindex: "0", "aria-label": summary }, JSON.stringify(value, null, 2));
  return el("details", {}, el("summary", {}, summary), text);
}

/** Where a row of actions says what went wrong; hidden while nothing did. */
export const problemLine = () => el("p", { role: "alert", class: "notice error", hidden: true });

/**
 * A button that saves a route's answer as a file, or the part of it that `part` takes: a link could not send the key.
 * problem: the line that tells why it could not be read.
 */
export function saveButton(text, { path, name, problem, part = null }) {
  const button = el("button", { type: "button", class: "quiet" }, text);
  button.addEventListener("click", async () => {
    clearProblem(problem);
    button.disabled = true;
    try {
      const answer = await request("GET", path);
      const content =
        part === null ? await answer.blob() : new Blob([JSON.stringify(part(await answer.json()), null, 2)]);
      const address = URL.createObjectURL(content);
      el("a", { href: address, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (error) {
      showProblem(problem, error);
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

/** The report for a capacity review: a page of its own where no key is asked for, else files. */
export function reportLinks(path, name, problem) {
  const open =
    document.body.dataset.asksForKeys === "yes"
      ? saveButton("Report (HTML)", { path: `${path}/report.html`, name: `${name}.html`, problem })
      : el("a", { class: "button quiet", href: `${path}/report.html`, target: "_blank", rel: "noopener" }, "Report");
  return [open, saveButton("Report (Markdown)", { path: `${path}/report.md`, name: `${name}.md`, problem })];
}

/** A button that copies a text and says so; null where the browser gives no clipboard (plain HTTP from elsewhere). */
export function copyButton(text, name) {
  if (!navigator.clipboard) return null;
  const button = el("button", { type: "button", class: "quiet small" }, name);
  const told = el("span", { role: "status", class: "hint" });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      told.textContent = "Copied.";
    } catch {
      told.textContent = "This browser does not let pages copy; mark the text instead.";
    }
  });
  return [button, told];
}
