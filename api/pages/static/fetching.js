// The service's routes: JSON in, JSON out, errors as the problem details that it answers (RFC 9457).

const KEY = "specworth-api-key"; // in sessionStorage: of this tab, until it closes

export const apiKey = () => sessionStorage.getItem(KEY);
export const setApiKey = (key) => sessionStorage.setItem(KEY, key);
export const forgetApiKey = () => sessionStorage.removeItem(KEY);

let askForKey = () => {};
/** Have `open` called when the service refuses for want of a key. */
export const onKeyNeeded = (open) => {
  askForKey = open;
};

/** What the service refused, or that it could not be reached; `message` is the whole of it in one line. */
export class Problem extends Error {
  constructor({ title, detail, status = 0, errors = [], type = "" }) {
    super(detail || title);
    this.title = title;
    this.status = status;
    this.errors = errors;
    this.type = type;
  }
}

function headersFor(mediaType, more) {
  const headers = new Headers(more);
  if (mediaType !== null) headers.set("Content-Type", mediaType);
  const key = apiKey();
  if (key !== null) headers.set("Authorization", `Bearer ${key}`);
  return headers;
}

async function problemOf(response) {
  let told = null;
  try {
    told = await response.json();
  } catch {
    // a proxy's page, or nothing at all
  }
  if (told === null || typeof told.detail !== "string") {
    told = { title: "The service failed", detail: `the service answered ${response.status} without saying why` };
  }
  if (response.status === 401) askForKey();
  return new Problem({ ...told, status: response.status });
}

/**
 * The response to a request; throws Problem for anything but success, and what fetch throws for one that was aborted.
 * body: an object, sent as JSON. text: JSON that is already text, instead. file: a Blob, sent as it is.
 */
export async function request(method, path, { body, text, file, headers, signal } = {}) {
  const content = file ?? text ?? (body === undefined ? undefined : JSON.stringify(body));
  const mediaType = file !== undefined ? "application/octet-stream" : content === undefined ? null : "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers: headersFor(mediaType, headers), body: content, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ title: "No answer", detail: "the service could not be reached; is it still running?" });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** The JSON that a request is answered with; null for an answer without content. */
export async function ask(method, path, options) {
  const response = await request(method, path, options);
  return response.status === 204 ? null : await response.json();
}

/**
 * Server-sent events of a route, one after the other as { event, data, id }; `data` is text. An EventSource cannot send
 * a key, so this reads the stream of an ordinary request.
 */
export async function* events(path, { method = "GET", ...options } = {}) {
  const headers = { Accept: "text/event-stream", ...options.headers };
  const response = await request(method, path, { ...options, headers });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) return;
      pending = (pending + value).replaceAll("\r\n", "\n");
      const blocks = pending.split("\n\n");
      pending = blocks.pop();
      for (const block of blocks) {
        const found = { event: "message", data: "", id: null };
        const data = [];
        for (const line of block.split("\n")) {
          const colon = line.indexOf(":");
          if (colon === 0) continue; // a comment, sent to keep the connection
          const name = colon < 0 ? line : line.slice(0, colon);
          const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
          if (name === "data") data.push(value);
          else if (name === "event") found.event = value;
          else if (name === "id") found.id = value;
        }
        if (data.length === 0) continue;
        found.data = data.join("\n");
        yield found;
      }
    }
  } finally {
    await reader.cancel().catch(() => {}); // the connection ends with whoever listens
  }
}
