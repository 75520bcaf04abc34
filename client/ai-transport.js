// A transport for `useChat` of Vercel's package `ai`: its chat is a thread of svc, and a message is a turn.

/** @import { Client, TurnFrame, TurnInput, Waits } from "./types.ts" */

/**
 * Returns a ChatTransport. The id of the chat is the thread's suffix. Only the last message of the user is sent, because the thread has the
 * earlier ones.
 * @param {Client} client
 * @param {object} options
 * @param {string} options.manifest
 * @param {string} [options.model]
 * @param {Waits} [options.waits] Answers approvals, questions and calls of the client's tools.
 */
export function chatTransport(client, { manifest, model, waits = {} }) {
  return {
    /**
     * @param {object} options
     * @param {"submit-message" | "regenerate-message"} options.trigger
     * @param {string} options.chatId
     * @param {readonly any[]} options.messages
     * @param {AbortSignal | undefined} options.abortSignal
     * @returns {Promise<ReadableStream<any>>}
     */
    async sendMessages({ trigger, chatId, messages, abortSignal }) {
      if (trigger === "regenerate-message")
        throw new Error("svc keeps the history: fork or rewind the thread instead.");
      const last = messages.findLast(({ role }) => role === "user");
      if (last === undefined) throw new Error("There is no message of the user.");
      /** @type {TurnInput} */
      const turn = {
        manifest,
        thread_id: chatId,
        messages: [{ role: "user", content: contentOf(last) }],
        ...(model && { model }),
      };
      const stop = () => void client.call("POST /chat/abort", { thread_id: chatId }).catch(() => {});
      abortSignal?.addEventListener("abort", stop, { once: true });
      return chunkStream(client.stream(turn, { waits, ...(abortSignal && { signal: abortSignal }) }), abortSignal);
    },

    /**
     * Returns null: `client.stream` reconnects by itself, and a page that was reloaded reads the thread.
     * @returns {Promise<null>}
     */
    async reconnectToStream() {
      return null;
    },
  };
}

/**
 * Returns the content of a message in svc's form: a text, or parts.
 * @param {{ parts: readonly any[] }} message
 */
function contentOf({ parts }) {
  const texts = parts.filter(({ type }) => type === "text");
  const files = parts.filter(({ type, mediaType }) => type === "file" && mediaType.startsWith("image/"));
  if (files.length === 0) return texts.map(({ text }) => text).join("");
  return [
    ...texts.map(({ text }) => ({ type: "text", text })),
    ...files.map(({ url }) => ({ type: "image_url", image_url: { url } })),
  ];
}

/**
 * Returns the chunks of a turn.
 * @param {AsyncGenerator<TurnFrame, void>} frames
 * @param {AbortSignal | undefined} signal
 */
function chunkStream(frames, signal) {
  const chunks = chunksOf(frames, signal);
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await chunks.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await chunks.return(undefined);
    },
  });
}

/**
 * @param {AsyncGenerator<TurnFrame, void>} frames
 * @param {AbortSignal | undefined} signal
 * @returns {AsyncGenerator<any, void>}
 */
async function* chunksOf(frames, signal) {
  const parts = new OpenParts();
  yield { type: "start" };
  yield { type: "start-step" };
  try {
    for await (const frame of frames) yield* parts.take(frame);
  } catch (error) {
    yield* parts.close();
    yield signal?.aborted
      ? { type: "abort" }
      : { type: "error", errorText: error instanceof Error ? error.message : String(error) };
    return;
  }
  yield* parts.close();
  yield { type: "finish-step" };
  yield { type: "finish" };
}

/** The parts of the message that are being written. */
class OpenParts {
  constructor() {
    /** @type {{ kind: "text" | "reasoning", id: string } | null} */
    this.open = null;
    this.count = 0;
    /** @type {Set<string>} */
    this.calls = new Set();
  }

  /** @param {TurnFrame} frame */
  *take(frame) {
    switch (frame.event) {
      case "text_delta":
        yield* this.write("text", frame.data.delta);
        break;
      case "thinking_delta":
        yield* this.write("reasoning", frame.data.delta);
        break;
      case "tool_start":
        yield* this.close();
        yield* this.call(frame.data.id, frame.data.name, frame.data.input);
        break;
      case "tool_request":
        yield* this.close();
        yield* this.call(frame.data.id, frame.data.name, frame.data.args);
        break;
      case "tool_end":
        yield {
          type: "tool-output-available",
          toolCallId: frame.data.id,
          output: frame.data.output,
          dynamic: true,
          providerExecuted: true,
        };
        break;
      case "approval_required":
        yield { type: "data-approval", id: frame.data.approval_id, data: frame.data };
        break;
      case "ui_request":
        yield { type: "data-question", id: frame.data.request_id, data: frame.data };
        break;
      case "todo_updated":
        yield { type: "data-todos", id: "todos", data: frame.data.todos };
        break;
      case "on_error":
        yield* this.close();
        yield { type: "error", errorText: frame.data.message };
        break;
    }
  }

  /**
   * @param {string} toolCallId
   * @param {string} toolName
   * @param {unknown} input
   */
  *call(toolCallId, toolName, input) {
    if (this.calls.has(toolCallId)) return;
    this.calls.add(toolCallId);
    yield { type: "tool-input-available", toolCallId, toolName, input, dynamic: true, providerExecuted: true };
  }

  /**
   * @param {"text" | "reasoning"} kind
   * @param {string} delta
   */
  *write(kind, delta) {
    if (this.open?.kind !== kind) {
      yield* this.close();
      this.open = { kind, id: `${kind}-${this.count++}` };
      yield { type: `${kind}-start`, id: this.open.id };
    }
    yield { type: `${kind}-delta`, id: this.open.id, delta };
  }

  *close() {
    if (this.open !== null) yield { type: `${this.open.kind}-end`, id: this.open.id };
    this.open = null;
  }
}
