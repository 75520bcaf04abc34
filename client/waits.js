import { SvcError } from "./error.js";

/** @import { CallOptions, Send, Waits } from "./types.ts" */

/** Refusals that mean that another client was first. */
const late = new Set(["approval_not_pending", "approval_expired", "not_found"]);

/**
 * Answers a frame that asks for something; undefined for other frames, and for one that was answered already.
 * @param {Send} send
 * @param {Waits} waits
 * @param {any} frame
 * @param {Set<string>} known
 * @param {CallOptions} options
 * @returns {Promise<void> | undefined}
 */
export function answerWait(send, waits, { event, data }, known, options) {
  const kind =
    event === "approval_required"
      ? "approval"
      : event === "ui_request"
        ? "question"
        : event === "tool_request"
          ? "tool"
          : null;
  if (kind === null || waits[kind] === undefined) return;
  const id = `${kind} ${data.approval_id ?? data.request_id ?? data.id}`;
  if (known.has(id)) return;
  known.add(id);
  return answer(send, waits, kind, data, options);
}

/**
 * @param {Send} send
 * @param {Waits} waits
 * @param {"approval" | "question" | "tool"} kind
 * @param {any} data
 * @param {CallOptions} options
 */
async function answer(send, waits, kind, data, options) {
  // The full id is the tenant, a colon, and the suffix that requests take.
  const thread_id = data.thread_id.slice(data.thread_id.indexOf(":") + 1);
  if (kind === "tool") {
    const { content, error } = await resultOf(waits, data);
    if (content !== undefined)
      await send("POST /chat/tool_result", { thread_id, tool_call_id: data.id, content, error }, options);
    return;
  }
  if (kind === "question") {
    const given = await waits.question?.(data);
    if (given !== undefined) await send("POST /chat/ui", { thread_id, request_id: data.request_id, ...given }, options);
    return;
  }
  const decision = await waits.approval?.(data);
  if (decision === undefined) return;
  const { approval_id } = data;
  await send("POST /approvals/{approval_id}/decide", { approval_id, ...decision }, options).catch((error) => {
    if (!(error instanceof SvcError) || !late.has(error.code)) throw error;
  });
}

/**
 * @param {Waits} waits
 * @param {any} data
 */
async function resultOf(waits, data) {
  try {
    const result = await waits.tool?.(data);
    const isPlain =
      result === undefined || typeof result === "string" || (typeof result === "object" && result !== null);
    return { content: isPlain ? result : JSON.stringify(result), error: false };
  } catch (error) {
    return { content: error instanceof Error ? error.message : String(error), error: true };
  }
}
