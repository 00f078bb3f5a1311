// What is asked, as the page holds it, as a link carries it, and as a request says it.
//
// Everything that is null is left out of all three: the service then estimates it, or takes its own default. The link's
// part after # never reaches a server; it holds the features of the prompts, compressed, and no text.

export const EMPTY = Object.freeze({
  features: null, // what POST /v1/workloads told
  source: null, // how the prompts are called: a file's name
  target: null,
  config: null, // a config.json, where the target is not in the catalog
  gpu: null,
  draft: null,
  concurrency: null,
  temperature: null,
  input: null,
  output: null,
  k: null,
  tp: null,
  maxLen: null,
  memory: null,
  kv: null,
  objective: null,
  minimum: null,
});

const TEXTS = ["source", "target", "gpu", "draft", "kv", "objective"];
const NUMBERS = ["concurrency", "temperature", "input", "output", "k", "tp", "maxLen", "memory", "minimum"];
const OBJECTS = ["features", "config"];

/** Can it be asked? */
export const complete = (state) => state.features !== null && state.target !== null && state.gpu !== null;

const defined = (object) => Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null));
const orUndefined = (object) => (Object.keys(object).length > 0 ? object : undefined);

/** A GPU of the catalog by its name, or one of the reader's own by its figures, written as JSON. */
export function gpuOf(text) {
  if (!text.startsWith("{")) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text; // the service says that it knows none of that name
  }
}

/** The body of POST /v1/explorations, and of /v1/recommendations. */
export function requestOf(state, drafters) {
  const speculation = defined({ num_speculative_tokens: state.k });
  if (state.draft !== null) {
    const method = drafters.methods.get(state.draft);
    if (method !== undefined) speculation.method = method;
    else speculation.draft = state.draft;
  }
  return {
    workload: state.features,
    deployment: {
      ...defined({
        target: state.config === null ? state.target : { name: state.target, config: state.config },
        gpu: gpuOf(state.gpu),
        tensor_parallel_size: state.tp,
        max_model_len: state.maxLen,
        gpu_memory_utilization: state.memory,
        kv_cache_dtype: state.kv,
      }),
      speculation: orUndefined(speculation),
    },
    traffic: defined({
      concurrency: state.concurrency,
      temperature: state.temperature,
      input_tokens: state.input,
      output_tokens: state.output,
    }),
    policy: defined({ objective: state.objective, min_speedup: state.minimum }),
  };
}

async function through(bytes, transform) {
  const stream = new Blob([bytes]).stream().pipeThrough(transform);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function packed(value) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(value)), new CompressionStream("deflate-raw"));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const LARGEST_UNPACKED = 2 ** 22; // a link is text from anywhere

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const chunks = [];
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.length;
    if (size > LARGEST_UNPACKED) throw new Error("too large");
    chunks.push(part.value);
  }
  return JSON.parse(await new Blob(chunks).text());
}

// Packing features takes longer than moving a slider, and they seldom change.
const known = new WeakMap();

/** The part of a link after #. */
export async function linkOf(state) {
  const words = new URLSearchParams();
  for (const name of [...TEXTS, ...NUMBERS]) if (state[name] !== null) words.set(name, String(state[name]));
  for (const name of OBJECTS) {
    if (state[name] === null) continue;
    if (!known.has(state[name])) known.set(state[name], await packed(state[name]));
    words.set(name, known.get(state[name]));
  }
  return words.toString();
}

/** The state that such a part tells of; throws where it cannot be read. */
export async function stateOf(text) {
  const words = new URLSearchParams(text);
  const state = { ...EMPTY };
  for (const name of TEXTS) state[name] = words.get(name);
  for (const name of NUMBERS) {
    const value = words.get(name);
    if (value === null) continue;
    if (!Number.isFinite(Number(value))) throw new Error(`${name} is no number`);
    state[name] = Number(value);
  }
  for (const name of OBJECTS) {
    const value = words.get(name);
    if (value === null) continue;
    state[name] = await unpacked(value);
    known.set(state[name], value);
  }
  return state;
}
