// The entry points of a run: the capabilities of each, as the parts of a run read them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { a2aSuffix } from "../../bus/address.ts";
import { type EntryPointTraits, entryPoints } from "../../bus/frames/entry-points.ts";

/** The entry points that have a capability. */
function having(has: (entry: EntryPointTraits) => boolean): string[] {
  return Object.entries(entryPoints).flatMap(([name, entry]) => (has(entry) ? [name] : []));
}

test("runs of tasks, jobs, evaluations, workflows, triggers and agents have no client to ask", () => {
  assert.deepEqual(
    having(({ attended }) => !attended),
    ["a2a", "task", "job", "eval", "workflow", "workflow_call", "trigger", "mcp", "mcp_chat"],
  );
});

test("keys of triggers outlive their runs, and only A2A has its own thread ids", () => {
  assert.deepEqual(
    having(({ keyOutlivesRun }) => keyOutlivesRun),
    ["trigger"],
  );
  assert.deepEqual(
    having(({ contextOf }) => contextOf(a2aSuffix("context")) !== null),
    ["a2a"],
  );
});

test("jobs, evaluations, workflows and triggers are always durable; questions, compactions and tasks never", () => {
  assert.deepEqual(
    having(({ durable }) => durable === "always"),
    ["job", "eval", "workflow", "workflow_call", "trigger"],
  );
  assert.deepEqual(
    having(({ durable }) => durable === "never"),
    ["ask", "compact", "task", "mcp"],
  );
});

test("a client without a token waits for the end of a durable run", () => {
  assert.deepEqual(
    having(({ awaitsDurable }) => awaitsDurable),
    ["openai", "openai_stream", "responses", "responses_stream", "agui", "mcp_chat"],
  );
});

test("one entry point compacts, one continues with waiting messages, and two call a tool", () => {
  assert.deepEqual(
    having(({ work }) => work !== "turn"),
    ["continue", "compact", "workflow_call", "mcp"],
  );
});

test("a run that no client waits for writes no output of its own", () => {
  assert.deepEqual(
    having(({ output }) => output === null),
    ["task", "job", "eval", "workflow", "workflow_call", "trigger"],
  );
});

test("the entry points of one protocol share a key space, and the rest have their own", () => {
  const places = Object.entries(entryPoints).map(([name, { keyPlace }]) => [name, keyPlace?.("t") ?? null]);

  assert.deepEqual(Object.fromEntries(places), {
    chat: ["chat"],
    chat_stream: ["stream", "t"],
    continue: null,
    ask: null,
    compact: null,
    openai: ["v1", "completions"],
    openai_stream: ["v1", "completions"],
    responses: ["v1", "responses"],
    responses_stream: ["v1", "responses"],
    a2a: null,
    agui: null,
    eval: null,
    mcp: null,
    mcp_chat: null,
    task: null,
    job: null,
    workflow: null,
    workflow_call: null,
    trigger: ["trigger"],
  });
});
