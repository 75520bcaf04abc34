import type { Env } from "../../../bus/env.ts";
import { soundJson } from "../../../bus/sound-text.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { RequestedCall } from "../../models/provider.ts";
import { loggedArguments } from "../../tools/arguments.ts";

/** Max length of a call id. The model chooses ids, and they are stored in rows and sent in frames. */
const callIdMax = 256;
/** The tool names that providers accept in a conversation. */
const callNamePattern = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Prepares requested calls for the log: parses their arguments and replaces empty, long and repeated ids. A call for which `isOurs` is true
 * always gets an id of svc. Such an id leaves the server, must be unguessable, and must identify one call of the tenant.
 */
export function identifyCalls(
  requested: readonly RequestedCall[],
  usedIds: Set<string>,
  env: Env,
  isOurs: (name: string) => boolean,
): ToolCall[] {
  const args = loggedArguments(requested.map((call) => soundJson(call.arguments)));
  return requested.map((call, at) => {
    let id = call.id;
    if (id === "" || id.length > callIdMax || usedIds.has(id) || isOurs(call.name)) id = `call_${env.id()}`;
    usedIds.add(id);
    return { id, name: presentableName(call.name), args: args[at] };
  });
}

/** The arguments of a logged call as the model may have written them. */
export function writtenArguments({ args }: ToolCall): string {
  return typeof args === "string" ? args : JSON.stringify(args);
}

/** Replaces characters that providers refuse, because an invented name is sent again with every later turn of the thread. */
function presentableName(name: string): string {
  return callNamePattern.test(name) ? name : name.replace(/[^A-Za-z0-9_-]/g, "-").slice(0, 64) || "unnamed";
}
