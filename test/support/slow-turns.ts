import type { RequestedCall } from "../../actors/models/provider.ts";
import { defineTool } from "../../actors/tools/tool.ts";
import { Type } from "../../bus/type.ts";
import type { ScriptedReply, ShownMessage } from "./scripted-model.ts";

// The parts of turns that a test interrupts at any moment, in simulated time.

/** A tool that takes 10 ms. */
export const slow = defineTool({
  name: "slow",
  description: "Takes its time.",
  parameters: Type.Object({}, { additionalProperties: false }),
  effect: "once",
  risk: "writes",
  execute: (_args, { env }) => new Promise((resolve) => env.timer(10, () => resolve({ text: "slept" }))),
});

const tools = ["slow", "calculator"];
/** One makes its calls in sequence, the other in parallel. */
export const slowManifests = { sequential: { tools }, parallel: { tools, execution: { tools: "parallel" } } };

export function call(id: string, name: string, args: object = {}): RequestedCall {
  return { id, name, arguments: JSON.stringify(args) };
}

/** Gives one reply after the other, by the progress of the thread, and then always the same. */
export function inTurn(replies: readonly ScriptedReply[]): (messages: readonly ShownMessage[]) => ScriptedReply {
  return (messages) => replies[messages.filter(({ role }) => role === "assistant").length] ?? { text: ["Next."] };
}
