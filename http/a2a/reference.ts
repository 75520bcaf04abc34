import { type A2aTask, artifactUpdate, sentResult, statusUpdate, taskUpdate } from "../../bus/frames/a2a-objects.ts";
import type { ManifestCard } from "../../bus/protocol/manifests.ts";
import { Type } from "../../bus/type.ts";
import type { StreamEvent } from "../stream-event.ts";
import { agentCard } from "./card.ts";

// Objects of the A2A protocol, for the reference.

const open = { additionalProperties: true };
const task: A2aTask = {
  id: "3f9c1e7a5b2d4806a1c3e5f70918273d",
  contextId: "d4e865c85a388aa550a42c219b6f7d10",
  manifest: "quick",
  status: { state: "completed", at: 1795348801000, text: null },
  answer: "6 * 7 = 42",
  history: [],
};
const begun: A2aTask = { ...task, status: { ...task.status, state: "working", at: 1795348800000 }, answer: null };
const card: ManifestCard = {
  name: "quick",
  version: "1.0.0",
  description: "A small assistant.",
  tags: ["assistant"],
  transparency: false,
  publish: true,
  capabilities: [],
};

/** A call that sends a message. */
export const a2aRequestExample = {
  jsonrpc: "2.0",
  id: 1,
  method: "SendMessage",
  params: { message: { messageId: "m1", role: "ROLE_USER", parts: [{ text: "What is 6 * 7?" }] } },
};

/** Its response. */
export const a2aResponseExample = response(sentResult("1.0", task));

/** The card of version 0.3. */
export const cardExample = agentCard("0.3", card, "https://agents.example.com");

/** The events of a stream. */
export const a2aEvents: readonly StreamEvent[] = [
  event("A2aTask", "task", taskUpdate("1.0", begun)),
  event("A2aArtifactUpdate", "artifactUpdate", artifactUpdate("1.0", task, "6 * 7 = 42", false, true)),
  event("A2aStatusUpdate", "statusUpdate", statusUpdate("1.0", { ...task, answer: null })),
];

function event(component: string, name: string, example: object): StreamEvent {
  return {
    component,
    line: null,
    schema: Type.Object(
      {
        jsonrpc: Type.Literal("2.0"),
        id: Type.Unknown(),
        result: Type.Object({ [name]: Type.Optional(Type.Object({}, open)) }, open),
      },
      { ...open, examples: [response(example)] },
    ),
  };
}

function response(result: object) {
  return { jsonrpc: "2.0", id: 1, result };
}
