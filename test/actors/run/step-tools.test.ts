// The ending of a step whose calls have run.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunContext } from "../../../actors/run/context/run-context.ts";
import { runTools } from "../../../actors/run/steps/step-tools.ts";
import type { ToolRunner } from "../../../actors/run/tool-calls/tool-runner.ts";

/** A step whose runner returns this, and whose run is stopped after it. */
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

test("SESS-009 a run that is stopped as its call starts to wait suspends", async () => {
  assert.deepEqual([await endingOf(true), await endingOf(false)], ["suspended", "finished"]);
});
