import type { Env } from "../../../bus/env.ts";
import { soundJson } from "../../../bus/sound-text.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { RequestedCall } from "../../models/provider.ts";
import { loggedArguments } from "../../tools/arguments.ts";

/** Ids of calls are the model's own words and end up in rows and frames. */
const callIdMax = 256;
/** Providers refuse a conversation in which a call has a name of any other form. */
const callNamePattern = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * Calls as the log keeps them: arguments parsed where they can be, and each with an id of its own, which is a used one then. Ids that
 * leave the server, as `isOurs` says, are never a model's: they are guessed by nobody, and name one call of the tenant.
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

/** The arguments of a call from the log, as the model may have written them. */
export function writtenArguments({ args }: ToolCall): string {
  return typeof args === "string" ? args : JSON.stringify(args);
}

/** A name that the model made up would be sent back with every later turn of the thread. */
function presentableName(name: string): string {
  return callNamePattern.test(name) ? name : name.replace(/[^A-Za-z0-9_-]/g, "-").slice(0, 64) || "unnamed";
}
