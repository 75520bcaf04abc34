import { SvcError } from "./error.js";

/** The largest frame, which holds a snapshot or a large answer. */
const frameCharactersMax = 64 * 1024 * 1024;

/**
 * Yields the events of a response as they arrive. The end of the stream without `[DONE]` is a lost connection, which throws.
 * @param {Response} response
 * @returns {AsyncGenerator<any, void>}
 */
export async function* readFrames(response) {
  const type = response.headers.get("content-type") ?? "";
  if (!type.startsWith("text/event-stream") || response.body === null)
    throw new SvcError({
      code: "invalid_answer",
      message: `The server answered with ${type || "no body"}.`,
      status: response.status,
    });
  const reader = response.body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read().catch((/** @type {unknown} */ cause) => {
        throw lost(cause);
      });
      if (done) throw lost();
      rest += value;
      if (rest.length > frameCharactersMax)
        throw new SvcError({ code: "invalid_answer", message: "A frame is too long." });
      const blocks = rest.split(/\r?\n\r?\n/);
      rest = /** @type {string} */ (blocks.pop());
      for (const block of blocks) {
        const { id, data } = wireFrame(block);
        if (data === "[DONE]") return;
        if (data === "") continue;
        yield parsed(data, id);
      }
    }
  } finally {
    // Ends the request of a consumer that leaves early.
    await reader.cancel().catch(() => {});
  }
}

/**
 * Splits an event into its fields.
 * @param {string} block
 */
function wireFrame(block) {
  /** @type {string | undefined} */
  let id;
  const lines = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("data:")) lines.push(line.slice(line[5] === " " ? 6 : 5));
    else if (line.startsWith("id:")) id = line.slice(3).trim();
  }
  return { id, data: lines.join("\n") };
}

/**
 * Parses a frame. Throws the failure that an error frame reports.
 * @param {string} data
 * @param {string | undefined} id
 */
function parsed(data, id) {
  /** @type {any} */
  const frame = JSON.parse(data);
  if (frame.event === undefined && typeof frame.error === "object" && frame.error !== null)
    throw new SvcError({ code: String(frame.error.type ?? frame.error.code), message: String(frame.error.message) });
  if (id !== undefined) frame.id = id;
  return frame;
}

/**
 * The error of a connection that ended too early.
 * @param {unknown} [cause]
 */
function lost(cause) {
  return new SvcError({ code: "connection_lost", message: "The connection was lost.", cause });
}
