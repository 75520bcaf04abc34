import type { ClientMessage } from "../../../bus/protocol/run.ts";
import type { ClientVendor } from "../../../bus/protocol/vendor-fields.ts";
import { JsonFault, parseStrictJson } from "../../../bus/strict-json.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { ToolOutcome } from "../../log/tool-outcome.ts";
import type { SignedThought } from "../../models/provider.ts";
import { anyModel } from "../../models/vendor-fields.ts";
import { isOfRequest } from "../spec/request-tools.ts";

// Finds the client's messages about calls that it was handed. With a thread, the log knows these calls. Decision 95: without one, the
// client's messages define them, and only for tools of this request.

/** Returns the calls of an assistant message that are for tools of this request. Throws an Error with the reason if one is malformed. */
export function requestCalls(message: ClientMessage, agent: CompiledAgent): ToolCall[] {
  if (message.role !== "assistant" || !Array.isArray(message.tool_calls)) return [];
  const ids = new Set<string>();
  return message.tool_calls.flatMap((call): ToolCall[] => {
    const { name, arguments: text } = (call?.function ?? {}) as { name?: unknown; arguments?: unknown };
    if (typeof name !== "string" || !isOfRequest(agent, name)) return [];
    const { id } = call as { id?: unknown };
    if (typeof id !== "string" || id === "" || id.length > callIdMax || ids.has(id))
      throw new Error(`must have ids of their own, of 1 to ${callIdMax} characters`);
    ids.add(id);
    return [{ id, name, args: argumentsOf(text) }];
  });
}

/** Max length of a call id, the same as for ids from models. */
const callIdMax = 256;

function argumentsOf(text: unknown): unknown {
  if (text === undefined || text === "") return {};
  try {
    return parseStrictJson(String(text));
  } catch (error) {
    if (error instanceof JsonFault) throw new Error("must have arguments that are JSON");
    throw error;
  }
}

/** Returns the log entry of an assistant message with calls, as the client quotes it. */
export function quotedCalls(
  content: string,
  tool_calls: readonly ToolCall[],
  vendor: ClientVendor | undefined,
): LogEntry {
  const thinking = vendor === undefined ? [] : clientThoughts(vendor, tool_calls);
  const metadata = { source: "client", ...(thinking.length > 0 && { thinking }) };
  return { kind: "message", role: "assistant", content, extra: { tool_calls, metadata } };
}

/** The vendor fields that a client sent back. They name no model, so every model gets them. */
function clientThoughts({ message, calls }: ClientVendor, tool_calls: readonly ToolCall[]): SignedThought[] {
  const ofCalls = calls.flatMap(([id, json]): SignedThought[] => {
    const call = tool_calls.findIndex((one) => one.id === id);
    return call < 0 ? [] : [{ type: "vendor", json, call, by: anyModel }];
  });
  return [...(message === null ? [] : [{ type: "vendor" as const, json: message, by: anyModel }]), ...ofCalls];
}

/**
 * Finds the tool messages that answer open calls of the log; the first answer of each call counts. Returns the message index by call id, or
 * null if there are none.
 */
export function answersTo(
  closing: readonly ToolOutcome[],
  messages: readonly ClientMessage[],
): ReadonlyMap<string, number> | null {
  if (closing.length === 0) return null;
  const open = new Set(closing.flatMap(({ call, isHanded }) => (isHanded ? [call.id] : [])));
  if (open.size === 0) return null;
  const answers = new Map<string, number>();
  for (const [at, { role, tool_call_id: id }] of messages.entries())
    if (role === "tool" && id !== undefined && open.delete(id)) answers.set(id, at);
  return answers.size === 0 ? null : answers;
}
