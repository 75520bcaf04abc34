// A thread as a value for views: what a person sees of it, kept current from its stream. It does not depend on a framework.
import { SvcError } from "./error.js";
import { foldFrame, loadingThread } from "./thread-view.js";

/** @import { Answer, Client, Decision, ThreadOptions, ThreadView } from "./types.ts" */

/** Follows a thread, and sends to it. */
export class Thread {
  /**
   * @param {Client} client
   * @param {ThreadOptions} options
   */
  constructor(client, options) {
    this.client = client;
    this.options = options;
    /** @type {ThreadView} */
    this.view = loadingThread;
    /** @type {Set<(view: ThreadView) => void>} */
    this.listeners = new Set();
    /** @type {AbortController | null} */
    this.following = null;
    this.isScheduled = false;
  }

  /**
   * Calls a listener after each change, at most once for each turn of the event loop. Returns a function that ends this. The thread is
   * followed while it has listeners.
   * @param {(view: ThreadView) => void} listener
   */
  subscribe(listener) {
    this.listeners.add(listener);
    if (this.following === null) void this.follow();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      this.following?.abort();
      this.following = null;
    };
  }

  /** @returns {Promise<void>} */
  async follow() {
    const following = new AbortController();
    this.following = following;
    const { thread_id } = this.options;
    try {
      /** @param {"open" | "lost"} state */
      const onState = (state) => this.change({ isConnected: state === "open" });
      const options = { signal: following.signal, onState };
      for await (const frame of this.client.follow("GET /chat/stream/{thread_id}", { thread_id }, options)) {
        if (following.signal.aborted) return;
        this.change(foldFrame(this.view, frame));
      }
    } catch (error) {
      if (following.signal.aborted) return;
      this.change({ error: asError(error), isConnected: false });
      this.following = null;
    }
  }

  /** @param {Partial<ThreadView>} changes */
  change(changes) {
    this.view = { ...this.view, ...changes };
    if (this.isScheduled) return;
    this.isScheduled = true;
    setTimeout(() => {
      this.isScheduled = false;
      for (const listener of this.listeners) listener(this.view);
    });
  }

  /**
   * Starts a turn with a message of the user. Resolves at its end. A failure is in `view.error`.
   * @param {string | object[]} content
   */
  async send(content) {
    const { thread_id, manifest, model } = this.options;
    const messages = [{ role: "user", content }];
    this.change({ isRunning: true, error: null });
    try {
      // The frames come over the thread's own stream. This one lets the agent ask questions, and tells the end of the turn.
      for await (const frame of this.client.stream({ manifest, messages, thread_id, ...(model && { model }) }))
        if (frame.event === "on_error")
          this.change({ error: new SvcError({ code: "model_provider_error", message: frame.data.message }) });
    } catch (error) {
      this.change({ error: asError(error) });
    } finally {
      this.change({ isRunning: false });
    }
  }

  /**
   * Adds a message to the live turn, or after it with the kind `follow_up`.
   * @param {string} text
   * @param {"steer" | "follow_up"} [kind]
   */
  async steer(text, kind = "steer") {
    await this.client.call("POST /chat/steer", { thread_id: this.options.thread_id, text, kind });
  }

  /** Stops the live turn. */
  async abort() {
    await this.client.call("POST /chat/abort", { thread_id: this.options.thread_id });
  }

  /**
   * Decides an approval of `view.asks`.
   * @param {string} approval_id
   * @param {Decision} decision
   */
  async decide(approval_id, decision) {
    await this.client.call("POST /approvals/{approval_id}/decide", { approval_id, ...decision });
  }

  /**
   * Answers a question of `view.asks`.
   * @param {string} request_id
   * @param {Answer} answer
   */
  async answer(request_id, answer) {
    await this.client.call("POST /chat/ui", { thread_id: this.options.thread_id, request_id, ...answer });
  }

  /**
   * Sends the result of a call in `view.asks` that the client has run.
   * @param {string} tool_call_id
   * @param {string} content
   * @param {boolean} [error]
   */
  async result(tool_call_id, content, error = false) {
    await this.client.call("POST /chat/tool_result", {
      thread_id: this.options.thread_id,
      tool_call_id,
      content,
      error,
    });
  }
}

/** @param {unknown} error */
function asError(error) {
  return error instanceof SvcError
    ? error
    : new SvcError({ code: "client_error", message: String(error), cause: error });
}
