// A list that is read page by page: what it says while it loads, when it is empty and when it fails; rows by keyboard.

import { byId, clearProblem, el, showProblem } from "../elements.js";
import { ask } from "../fetching.js";
import { plural } from "../formatting.js";

const PAGE = 20;
const WAYS = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };

export class Listing {
  /**
   * name: of its elements' ids and of the route's member. row: a table row for an item. query: what restricts it now.
   * empty: texts for nothing at all and for nothing that fits. onNothingKept: this service has no history.
   */
  constructor({ name, path, noun, row, query, empty, onNothingKept, onShown = () => {} }) {
    Object.assign(this, { name, path, noun, row, query, onNothingKept, onShown });
    this.texts = empty;
    this.items = new Map();
    this.cursor = null;
    this.asked = null; // what ends the request under way
    for (const part of ["status", "problem", "problem-text", "empty", "card", "rows", "more"]) {
      this[part] = byId(`${name}-${part}`);
    }
    this.more.addEventListener("click", () => this.#load(true));
    byId(`${name}-refresh`).addEventListener("click", () => this.reload());
    byId(`${name}-again`).addEventListener("click", () => (this.cursor === null ? this.reload() : this.#load(true)));
    this.rows.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** Read it anew from its newest item. */
  reload() {
    this.cursor = null;
    return this.#load(false);
  }

  /** The rows of the next page, or of the first. */
  async #load(further) {
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    this.card.setAttribute("aria-busy", "true");
    this.more.disabled = true;
    this.status.textContent = "Loading…";
    clearProblem(this["problem-text"]);
    this.problem.hidden = true;
    try {
      const page = await ask("GET", this.#address(further ? this.cursor : null), { signal: asked.signal });
      this.#take(page, further);
    } catch (error) {
      if (error.name !== "AbortError") this.#fail(error, further);
    } finally {
      if (this.asked === asked) {
        this.card.removeAttribute("aria-busy");
        this.more.disabled = false;
      }
    }
  }

  #address(cursor) {
    const query = new URLSearchParams([...this.query(), ["limit", PAGE]]);
    if (cursor !== null) query.set("cursor", cursor);
    return `${this.path}?${query}`;
  }

  #take(page, further) {
    const items = page[this.name];
    this.cursor = page.next_cursor;
    if (!further) {
      this.items.clear();
      this.rows.replaceChildren();
    }
    const fresh = items.filter((item) => !this.items.has(item.id));
    for (const item of fresh) this.#append(item);
    this.#tell();
    this.onShown(fresh);
    if (further && fresh.length > 0) this.focus(fresh[0].id); // where reading goes on
  }

  #append(item) {
    this.items.set(item.id, item);
    this.rows.append(this.#made(item));
  }

  #made(item) {
    const row = this.row(item);
    row.dataset.id = item.id;
    return row;
  }

  #fail(error, further) {
    this.status.textContent = "";
    if (error.type?.endsWith(":no-history")) return this.onNothingKept();
    if (!further) {
      this.items.clear();
      this.rows.replaceChildren();
      this.card.hidden = this.more.hidden = this.empty.hidden = true;
    }
    showProblem(this["problem-text"], error);
    this.problem.hidden = false;
  }

  #tell() {
    const restricted = [...this.query()].length > 0;
    const none = this.items.size === 0;
    this.card.hidden = none;
    this.empty.hidden = !none;
    this.empty.replaceChildren(...[restricted ? this.texts.filtered : this.texts.all].flat());
    this.more.hidden = this.cursor === null;
    const rest = this.cursor === null ? "" : ", and there are more";
    this.status.textContent = none ? `No ${this.noun}s` : `${plural(this.items.size, this.noun)}${rest}`;
  }

  /** Put an item that changed in its row; what had the focus there has it again. */
  replace(item) {
    if (!this.items.has(item.id)) return;
    this.items.set(item.id, item);
    const before = this.rowOf(item.id);
    const focused = before.contains(document.activeElement) ? document.activeElement.dataset.control : null;
    const row = this.#made(item);
    before.replaceWith(row);
    if (focused) (row.querySelector(`[data-control="${focused}"]`) ?? row.querySelector("[data-control]")).focus();
  }

  /** Put new items before all others. */
  prepend(items) {
    const fresh = items.filter((item) => !this.items.has(item.id));
    if (fresh.length === 0) return;
    this.items = new Map([...fresh.map((item) => [item.id, item]), ...this.items]);
    this.rows.prepend(...fresh.map((item) => this.#made(item)));
    this.#tell();
    this.onShown(fresh);
  }

  /** Take an item out; the focus goes to the same control of its neighbour, or to the word that nothing is left. */
  async remove(id, control) {
    const row = this.rowOf(id);
    if (row === null) return; // not on the pages that were read
    const next = (row.nextElementSibling ?? row.previousElementSibling)?.dataset.id;
    row.remove();
    this.items.delete(id);
    if (next === undefined && this.cursor !== null) await this.reload();
    this.#tell();
    const first = next ?? this.items.keys().next().value;
    if (first === undefined) this.empty.focus();
    else this.focus(first, control);
  }

  rowOf(id) {
    return this.rows.querySelector(`tr[data-id="${CSS.escape(id)}"]`);
  }

  /** Focus a row's control, or its first one that has a name. */
  focus(id, control = "open") {
    const row = this.rowOf(id);
    (row?.querySelector(`[data-control="${control}"]`) ?? row?.querySelector("[data-control]"))?.focus();
  }

  #onKey(event) {
    const control = event.target.dataset.control;
    const row = event.target.closest("tr");
    if (control === undefined || row === null || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Delete") {
      event.preventDefault();
      row.querySelector('[data-control="delete"], [data-control="cancel"]')?.click();
      return;
    }
    const way = WAYS[event.key];
    if (way === undefined) return;
    event.preventDefault();
    const rows = [...this.rows.children];
    const to = Math.min(Math.max(rows.indexOf(row) + way, 0), rows.length - 1);
    this.focus(rows[to].dataset.id, control);
  }
}

/** A cell; `name` stands before it where the table is shown as cards. */
export const cell = (name, content, { kind = null, row = false } = {}) =>
  el(
    row ? "th" : "td",
    { role: row ? "rowheader" : "cell", scope: row ? "row" : null, class: kind, "data-name": name },
    content,
  );

/** A button in a row; `of` is told to screen readers, since all rows have the same buttons. */
export const rowButton = (control, text, of, onclick, kind = "quiet small") =>
  el("button", { type: "button", class: kind, "data-control": control, "aria-label": `${text}: ${of}`, onclick }, text);

/** The name of a row, which opens it. */
export const openButton = (text, onclick) =>
  el("button", { type: "button", class: "link", "data-control": "open", onclick }, text);
