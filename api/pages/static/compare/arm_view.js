// One answer as it comes: state, figures, text, and which of it was drafted.

import { el, showProblem } from "../elements.js";
import { count, percent } from "../formatting.js";

const STATES = {
  idle: ["not asked yet", "still"],
  asking: ["asking", "live"],
  waiting: ["waits its turn", "still"],
  sent: ["sent", "live"],
  answering: ["answering", "live"],
  finished: ["finished", "good"],
  failed: ["failed", "bad"],
  stopped: ["stopped", "still"],
};
const UNKNOWN = "–";

/** A time as people read it. */
export const duration = (ms) => (ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(2)} s`);

const perSecond = (rate) => rate.toFixed(rate < 10 ? 2 : 1);

export class ArmView {
  #parts = {};
  #max = 1;
  #follow = true; // the end of the text stays in sight unless its reader scrolled away
  #due = false;

  constructor(node) {
    for (const part of node.querySelectorAll("[data-part]")) this.#parts[part.dataset.part] = part;
    const { stream } = this.#parts;
    stream.addEventListener("scroll", () => {
      this.#follow = stream.scrollHeight - stream.scrollTop - stream.clientHeight < 40;
    });
    this.state = "idle";
    this.#show();
  }

  /** Before a prompt is sent. */
  reset({ maxTokens }) {
    const { stream, problem, legend, server } = this.#parts;
    this.#max = maxTokens;
    this.#follow = true;
    stream.replaceChildren();
    problem.hidden = true;
    problem.textContent = "";
    server.textContent = "";
    if (legend) legend.hidden = true;
    for (const name of ["rate", "ttft", "tokens", "time", "acceptance"]) this.#set(name, UNKNOWN);
    this.#parts.progress.value = 0;
    this.become("asking");
  }

  become(state) {
    this.state = state;
    this.#show();
  }

  /** Nothing of it will come any more; what has come stays. */
  end(state) {
    if (!["finished", "failed", "idle"].includes(this.state)) this.become(state);
  }

  server({ url, model, version, speculates }) {
    const told = [url, model, version && `vLLM ${version}`, speculates === null && "no /metrics"];
    this.#set("server", told.filter(Boolean).join(" · "));
    if (speculates === false) this.#set("acceptance", "does not speculate");
  }

  text({ text, new_tokens: tokens }) {
    if (this.state !== "answering") this.become("answering");
    const first = this.#parts.stream.childNodes.length === 0;
    // A step that accepted drafts emits them with the target's own token; the first piece is the prefill's.
    this.#append(text, this.#parts.legend !== undefined && !first && tokens > 1);
    if (this.#parts.legend && this.#parts.legend.hidden && !first && tokens > 1) this.#legend("Steps in which drafts were accepted");
    this.#scroll();
  }

  figures({ tokens, ttft_ms: ttft, elapsed_ms: elapsed, tokens_per_s: rate }) {
    if (this.state === "finished") return; // the last word is the whole answer's
    if (rate !== null) this.#set("rate", perSecond(rate));
    if (ttft !== null) this.#set("ttft", duration(ttft));
    if (elapsed !== null) this.#set("time", duration(elapsed));
    if (tokens !== null) {
      this.#set("tokens", count(tokens));
      this.#parts.progress.value = Math.min(1, tokens / this.#max);
    }
  }

  finished({ output_tokens: tokens, end_to_end_ms: time, ttft_ms: ttft, tpot_ms: tpot, finish_reason: reason }) {
    this.#set("tokens", count(tokens));
    this.#set("time", duration(time));
    if (ttft !== null) this.#set("ttft", duration(ttft));
    if (tpot) this.#set("rate", perSecond(1000 / tpot));
    this.#parts.progress.value = 1;
    if (tokens === 0 || this.#parts.stream.childNodes.length === 0) {
      this.#append(`(an empty answer${reason ? `: ${reason}` : ""})`, false);
    }
    this.become("finished");
  }

  acceptance({ acceptance_length: length, acceptance_rate: rate, drafts, source, other_traffic: others, final }) {
    if (!drafts || length === null) {
      if (final) this.#set("acceptance", "nothing was drafted");
      return;
    }
    const share = rate === null ? "" : `, ${percent(rate)} of the drafts accepted`;
    const whose = others ? " (all its traffic meanwhile)" : source === "metrics" && !final ? " (so far)" : "";
    this.#set("acceptance", `${length.toFixed(2)} tokens a step${share}${whose}`);
  }

  /** The server's own account of which tokens were drafts, or that there is none. */
  marks({ spans, unknown }) {
    const { stream, legend } = this.#parts;
    if (spans.length > 0 && spans.map(([text]) => text).join("") === stream.textContent) {
      stream.replaceChildren();
      for (const [text, drafted] of spans) this.#append(text, drafted);
      this.#legend("Accepted drafts", ", token by token as the server counted them.");
      this.#scroll();
    } else if (legend && !legend.hidden) {
      const why =
        unknown === "not told"
          ? ", judged by what came at once; which of their tokens were drafts this server does not tell " +
            "(--enable-per-request-metrics --per-request-spec-decode-metrics detailed, from vLLM 0.32 on)."
          : ", as the server counted them; where one token ends and the next begins is not known of this text.";
      this.#legend("Steps in which drafts were accepted", why);
    }
  }

  failed(line) {
    const { problem } = this.#parts;
    showProblem(problem, { message: line });
    this.become("failed");
  }

  #append(text, drafted) {
    const { stream } = this.#parts;
    if (drafted) stream.append(el("span", { class: "drafted" }, text));
    else if (stream.lastChild?.nodeType === Node.TEXT_NODE) stream.lastChild.data += text;
    else stream.append(text);
  }

  #legend(what, more = "") {
    const { legend } = this.#parts;
    if (!legend) return;
    legend.replaceChildren(el("span", { class: "drafted swatch" }, what), more);
    legend.hidden = false;
  }

  #scroll() {
    if (!this.#follow || this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      this.#parts.stream.scrollTop = this.#parts.stream.scrollHeight;
    });
  }

  #set(name, value) {
    if (this.#parts[name]) this.#parts[name].textContent = value;
  }

  #show() {
    const [text, kind] = STATES[this.state];
    this.#parts.state.textContent = text;
    this.#parts.state.className = `badge ${kind}`;
  }
}
