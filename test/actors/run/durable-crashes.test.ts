// A durable run whose process dies after each of its batches, on both engines. The next process resumes it and repeats
// no step that is in the log.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { defineTool } from "../../../actors/tools/tool.ts";
import { durableAddress, runAddress, threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { Type } from "../../../bus/type.ts";
import type { Store } from "../../../storage/store/store.ts";
import { type Decision, decideOps } from "../../../storage/tables/approvals.ts";
import { type DurableRunRow, durableRowById } from "../../../storage/tables/durable-rows.ts";
import { type LogEvent, readEvents } from "../../../storage/tables/events.ts";
import { type RunRow, runByKey } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { usagePage } from "../../../storage/tables/usage.ts";
import { waitsOfRun } from "../../../storage/tables/waits.ts";
import { ActorProcess, type AskedTurn, processSettings, tenantId } from "../../support/actor-process.ts";
import { eventually } from "../../support/eventually.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const call = (id: string, name: string) => ({ id, name, arguments: JSON.stringify({ id }) });
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
const replies: readonly ScriptedReply[] = [
  { text: ["First."], usage, calls: [call("a", "note"), call("b", "look"), call("c", "no_such_tool")] },
  { usage, calls: [call("d", "put"), call("e", "note")] },
  { text: ["Done."], usage },
];
const answer = (messages: readonly ShownMessage[]): ScriptedReply =>
  replies[messages.filter(({ role }) => role === "assistant").length] ?? { text: ["Next."] };

const decisions: readonly Decision[] = [
  { decision: "approved", note: "", edited_args: null },
  { decision: "denied", note: "look first", edited_args: null },
  { decision: "denied", note: "", edited_args: null, result: "noted by hand" },
];
/** True if the process survives its last batch, with the decision after that. */
const variants = [
  ...decisions.map((decision) => [true, decision] as const),
  ...decisions.slice(0, 2).map((decision) => [false, decision] as const),
];
const said = ({ decision, result }: Decision): string => (result === undefined ? decision : "told");
const resultOf: Readonly<Record<string, string>> = {
  denied: "[tool error/interrupted] outcome unknown: it may have run (once): look first",
  told: "noted by hand",
};

for (const dialect of dialects) {
  describe(`a process that dies after each batch of a durable run, on ${dialect}`, () => {
    const atEnd = cleanup();
    /** The external effects of the tools, with their keys. */
    const effects: string[] = [];
    let store: Store;
    let settings: ReturnType<typeof processSettings>;

    const tool = (name: string, effect: "read" | "idempotent" | "once") =>
      defineTool({
        name,
        description: "Leaves a trace.",
        parameters: Type.Object({ id: Type.String() }, { additionalProperties: false }),
        effect,
        risk: effect === "read" ? "reads" : "writes",
        execute({ id }, { threadSuffix, toolCallId }) {
          effects.push(`${threadSuffix} ${toolCallId}`);
          return { text: `${name} ${id}` };
        },
      });
    const tools = [tool("note", "once"), tool("look", "read"), tool("put", "idempotent")];

    const started: ActorProcess[] = [];
    before(async () => {
      const names = tools.map(({ name }) => name);
      const durable = { mode: "durable" };
      settings = processSettings(
        atEnd,
        {
          sequential: { tools: names, execution: durable },
          parallel: { tools: names, execution: { ...durable, tools: "parallel" } },
        },
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });

    function start(of: Store, bootId: string) {
      const model = new ScriptedModel(env, answer, () => 0);
      const process = new ActorProcess({ env, store: of, settings, model, tools, bootId });
      atEnd.after(() => process.close());
      started.push(process);
      return { process, model };
    }
    async function logOf(suffix: string): Promise<LogEvent[]> {
      const tenant = store.tenant(tenantId);
      const head = await threadBySuffix(tenant, suffix);
      return head ? readEvents(tenant, head.thread_key, 0, 1_000) : [];
    }
    async function ended(runId: string): Promise<{ durableRun: DurableRunRow; run: RunRow }> {
      const tenant = store.tenant(tenantId);
      const durableRun = await eventually(`the end of ${runId}`, async () => {
        const row = await durableRowById(tenant, runId);
        return row?.ended_at != null ? row : undefined;
      });
      return { durableRun, run: (await runByKey(tenant, durableRun.run_key)) as RunRow };
    }
    /** Decides the outcomes of interrupted calls until the run is over. Returns the calls it was asked about. */
    async function decide(runId: string, suffix: string, decision: Decision, process: ActorProcess): Promise<string[]> {
      const tenant = store.tenant(tenantId);
      const asked: string[] = [];
      await eventually(`the end of ${runId}`, async () => {
        for (const { state, approval_id, call } of await waitsOfRun(tenant, runId)) {
          if (state !== "open" || approval_id === null) continue;
          assert.equal(call.begun, "once");
          asked.push(call.tool_call_id);
          await tenant.write(decideOps(tenant, approval_id, decision, "bob"));
          process.bus.tell(runAddress(tenantId, suffix, runId), "resume", { due: false });
        }
        return (await durableRowById(tenant, runId))?.ended_at ?? undefined;
      });
      return asked;
    }
    const answersIn = (events: readonly LogEvent[]) =>
      events.filter(({ kind, role }) => kind === "message" && role === "assistant").length;

    for (const manifest of ["sequential", "parallel"]) {
      test(`DUR-008 a ${manifest} run resumes after its logged steps and repeats no call with an effect`, async () => {
        const whole = stoppingStore(store, Number.POSITIVE_INFINITY, true);
        const uncut = start(whole, `uncut-${manifest}`).process.submit({
          manifest,
          thread_suffix: `uncut-${manifest}`,
        });
        assert.equal((await uncut.accepted).kind, "accepted");
        await ended(uncut.runId);
        assert.ok(whole.batches >= 8, `${whole.batches} batches`);
        const seen = new Set<string>();

        for (let batches = 1; batches <= whole.batches; batches++) {
          for (const [answered, decision] of variants) {
            const suffix = `${manifest}-${batches}-${answered}-${said(decision)}`;
            const dying = stoppingStore(store, batches, answered);
            const turn: AskedTurn = { manifest, thread_suffix: suffix };
            const first = start(dying, `first-${suffix}`).process.submit(turn);
            await (batches === whole.batches && answered ? ended(first.runId) : dying.stopped);
            const before = await logOf(suffix);
            const tenant = store.tenant(tenantId);
            const wasOver = (await durableRowById(tenant, first.runId))?.ended_at != null;

            const { process, model } = start(store, `second-${suffix}`);
            await process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
            process.bus.tell(durableAddress(`second-${suffix}`), "look", { all: true });
            const asked = await decide(first.runId, suffix, decision, process);
            const { durableRun, run } = await ended(first.runId);

            const events = await logOf(suffix);
            assert.equal(run.status, "completed", suffix);
            assert.equal(durableRun.final, "Done.", suffix);
            assert.equal(answersIn(events), 3, suffix);
            assert.equal(
              model.requests.length,
              wasOver ? 0 : 3 - answersIn(before),
              `${suffix}: answers are asked for once`,
            );
            assert.equal(events.filter(({ role }) => role === "user").length, 1, suffix);
            const results = events.filter(({ kind }) => kind === "tool_result");
            const ids = results.map(({ extra }) => extra?.tool_call_id ?? "");
            assert.deepEqual([...ids].sort(), ["a", "b", "c", "d", "e"], `${suffix}: each call has one result`);
            for (const { extra, content } of results) {
              const id = extra?.tool_call_id as string;
              const ran = effects.filter((effect) => effect === `${suffix} ${id}`).length;
              const isAsked = asked.includes(id);
              const most = isAsked && decision.decision === "approved" ? 2 : 1;
              if (extra?.name === "note") assert.ok(ran <= most, `${suffix}: ${id} ran ${ran} times`);
              if (isAsked) seen.add(`${said(decision)}, ${ran === 0 ? "not run" : `run ${ran}`}`);
              if (isAsked) assert.equal(content, resultOf[said(decision)] ?? `note ${id}`, suffix);
              else if (extra?.name !== "no_such_tool") assert.ok(ran >= 1, `${suffix}: ${id} did not run`);
              if (ran === 2) seen.add(`${extra?.name} again`);
            }
            const intents = events.filter(({ kind }) => kind === "tool_call").map(({ extra }) => extra?.tool_call_id);
            assert.equal(new Set(intents).size, intents.length, `${suffix}: each intent stands once`);
            assert.equal(run.spent?.tool_calls, 4, `${suffix}: calls count once`);
            const { rows } = await usagePage(tenant, { thread_id: `${tenantId}:${suffix}` }, null, 9);
            assert.equal(rows.length, 3, `${suffix}: each answer is billed once`);
            assert.ok(durableRun.lost <= 1, suffix);
            assert.ok(asked.length <= (manifest === "parallel" ? 2 : 1), `${suffix}: asked for ${asked}`);
            process.close();
          }
        }

        const outcomes = ["approved, run 1", "approved, run 2", "denied, run 1", "denied, not run", "told, run 1"];
        for (const met of [...outcomes, "look again", "put again"])
          assert.ok(seen.has(met), `no crash point has met "${met}": ${[...seen]}`);
      });
    }

    test("DUR-008 the next process begins a run that was accepted and not begun", async () => {
      // Runs of earlier tests would find this one.
      for (const process of started) process.close();
      const dying = stoppingStore(store, 1, false);
      const { process: taken } = start(dying, "first-accepted");
      taken.bus.tell(durableAddress("first-accepted"), "drain", {});
      const first = taken.submit({ manifest: "sequential", thread_suffix: null });
      await dying.stopped;

      const { process, model } = start(store, "second-accepted");
      process.bus.tell(durableAddress("second-accepted"), "look", { all: true });
      const { run, durableRun } = await ended(first.runId);

      assert.equal(run.status, "completed");
      assert.equal(durableRun.suffix, `fiber:${first.runId}`);
      assert.equal(model.requests.length, 3);
    });
  });
}
