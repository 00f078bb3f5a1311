// How numbers are told, the same as in the reports of the command line.

const GIB = 2 ** 30;
const counts = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A speedup as people say it: 1.34x. */
export const times = (value) => `${value.toFixed(2)}x`;

/** Whole numbers with separators. */
export const count = (value) => counts.format(value);

/** Bytes in GiB, with one decimal from 10 on. */
export const gib = (bytes) => `${(bytes / GIB).toFixed(Math.abs(bytes) >= 10 * GIB ? 1 : 2)} GiB`;

/** A share in per cent. */
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)}%`;

/** A probability; a predicted one is never certain. */
export const chance = (p) => (p > 0.99 ? "over 99%" : p < 0.01 ? "under 1%" : percent(p));

/** "1 request", "2 requests". */
export const plural = (n, noun, nouns = `${noun}s`) => `${count(n)} ${n === 1 ? noun : nouns}`;

/** A sentence of the service's with a capital; names that are written small stay as they are where they have marks. */
export function sentence(text) {
  const first = text.split(" ", 1)[0];
  const opening = /^[a-z]+$/.test(first) ? text.charAt(0).toUpperCase() : text.charAt(0);
  return `${opening}${text.slice(1).replace(/\.$/, "")}.`;
}

const METHODS = {
  ngram: "n-gram",
  suffix: "suffix decoding",
  draft_model: "draft model",
  eagle: "EAGLE",
  eagle3: "EAGLE-3",
  mtp: "multi-token prediction",
  medusa: "Medusa",
};

/** A method by its name among people. */
export const methodName = (method) => METHODS[method] ?? method;

/** A method with its drafter (without the organisation). */
export const methodWith = (method, draft) =>
  draft ? `${methodName(method)} ${draft.split("/").pop()}` : methodName(method);

/** Class names and the like: underscores are spaces. */
export const words = (name) => name.replaceAll("_", " ");

/** How long ago: "3 min ago". */
export function ago(iso, now = Date.now()) {
  const seconds = Math.max(0, (now - new Date(iso).getTime()) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(iso).toISOString().slice(0, 10);
}
