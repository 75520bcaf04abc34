// How a step ends whose calls were run.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunContext } from "../../../actors/run/context/run-context.ts";
import { runTools } from "../../../actors/run/steps/step-tools.ts";
import type { ToolRunner } from "../../../actors/run/tool-calls/tool-runner.ts";

/** A step whose runner has come back with this, and whose run was stopped behind that. */
async function endingOf(waits: boolean) {
  const runContext = {
    spec: { agent: {}, thread_suffix: "t" },
    cancellation: { cancelled: true },
    branch: { messages: [], add() {} },
    run: { abortReason: "client" },
  } as unknown as RunContext;
  const tools = { runAll: async () => ({ outcomes: [], waits, handed: [] }) } as unknown as ToolRunner;
  return (await runTools(runContext, tools, []))?.kind;
}

test("SESS-009 a run that is stopped as its call has just begun to wait is put aside, so that who stops it closes the call", async () => {
  assert.deepEqual([await endingOf(true), await endingOf(false)], ["suspended", "finished"]);
});
