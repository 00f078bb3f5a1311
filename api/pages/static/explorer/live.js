// One request at a time, the latest state wins.
//
// The service answers one question after the other, so a second request that is sent before the first is answered only
// waits there. While a slider moves, the answers on the way are shown, each for a state that it really passed; what was
// superseded in the meantime is never sent. Where the prompts or the deployment change, an answer under way is of
// something else, and is dropped.

export class Live {
  #ask; // async (state, signal) => answer
  #shown; // (answer, state) => void
  #failed; // (error) => void
  #busy; // (boolean) => void
  #waiting = null;
  #running = null;

  constructor({ ask, shown, failed, busy }) {
    this.#ask = ask;
    this.#shown = shown;
    this.#failed = failed;
    this.#busy = busy;
  }

  /** Ask for this state as soon as it can be; `afresh` drops what is under way. */
  change(state, { afresh = false } = {}) {
    if (afresh) this.#running?.abort();
    this.#waiting = state;
    if (this.#running === null) this.#next();
  }

  /** Ask for nothing any more. */
  stop() {
    this.#waiting = null;
    this.#running?.abort();
  }

  async #next() {
    const running = new AbortController();
    this.#running = running;
    this.#busy(true);
    // Several changes of one moment (a slider's events) are one.
    await new Promise((done) => setTimeout(done, 0));
    while (this.#waiting !== null && this.#running === running) {
      const state = this.#waiting;
      this.#waiting = null;
      try {
        const answer = await this.#ask(state, running.signal);
        if (!running.signal.aborted) this.#shown(answer, state);
      } catch (error) {
        if (running.signal.aborted) break;
        if (this.#waiting === null) this.#failed(error);
      }
    }
    this.#running = null;
    this.#busy(false);
    if (this.#waiting !== null) this.#next();
  }
}
