// Values that the examples of several schemas share. All belong to one conversation, so that the result of one example request can be read with
// the next.

/** The id of an event. */
export const eventIdExample = "a0ba44739d83420b416a000000000004";

/** The id of a run. */
export const runIdExample = "3f9c1e7a5b2d4806a1c3e5f70918273d";

/** The id of a tool call. */
export const callIdExample = "call_7ec51edca70bd9be9f80871bd7ca55d2";

/** A SHA-256 digest. */
export const digestExample = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/** The time of the conversation, in epoch milliseconds. */
export const noon = 1795348800000;

/** The message of the user. */
export const questionExample = { role: "user", content: "What is 6 * 7?" };

/** The message of the agent. */
export const replyExample = { role: "assistant", content: "6 * 7 = 42" };

/** A snapshot of a conversation. */
export const snapshotExample = {
  ...{ id: "default:tour", name: null, parentSessionId: null, createdAt: noon, updatedAt: noon, model: { id: "demo" } },
  ...{ manifest: "quick", thinkingLevel: "off", permissionMode: "default", outputStyle: null, attached: false },
  ...{ locked: false, revision: 1, queuedSteer: [], queuedSteerCount: 0, queuedFollowUpCount: 0, activeRun: null },
  transcript: [
    {
      ...{ id: "a0ba44739d83420b416a000000000000", seq: 0, parentId: null, kind: "message", role: "user" },
      ...{ content: "What is 6 * 7?", timestamp: noon, status: "complete", metadata: {} },
    },
  ],
  ...{ labels: {}, feedback: {}, leafId: "a0ba44739d83420b416a000000000000", phase: "idle" },
  wake: { fresh: false, headSeq: 1, endedOnAssistant: false, pendingToolCalls: [] },
  ...{ todos: [], openQuestions: [] },
};
