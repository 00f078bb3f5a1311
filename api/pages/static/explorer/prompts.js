// From a file, a pasted text or the example to features: the only place where prompts leave the browser.

import { Problem, ask } from "../fetching.js";

const LARGEST_FEATURES = 2 ** 21;

function unzipped(file) {
  const stream = file.stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).blob();
}

/** Features, where a file holds them itself: then nothing is sent at all. */
async function featuresIn(file) {
  if (file.size > LARGEST_FEATURES || !file.name.endsWith(".json")) return null;
  try {
    const value = JSON.parse(await file.text());
    return value !== null && typeof value === "object" && "token_structure" in value ? value : null;
  } catch {
    return null;
  }
}

/** The features of a file's prompts; throws Problem for one that cannot be read. */
export async function featuresOf(file, { signal } = {}) {
  if (file.size === 0) throw new Problem({ detail: `${file.name} is empty; expected a file of prompts` });
  const given = await featuresIn(file);
  if (given !== null) return given;
  let [content, name] = [file, file.name];
  if (/\.(gz|gzip)$/.test(name)) {
    try {
      [content, name] = [await unzipped(file), name.replace(/\.(gz|gzip)$/, "")];
    } catch {
      throw new Problem({ detail: `${name} cannot be unpacked; expected gzip` });
    }
  }
  const query = new URLSearchParams({ name: name.slice(0, 200) });
  return await ask("POST", `/v1/workloads?${query}`, { file: content, signal });
}
