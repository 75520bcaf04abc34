// Client tool calls across the ends of processes, and their number per tenant.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { wakeDueRuns } from "../../../actors/durable/due-waits.ts";
import { runAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import type { Store } from "../../../storage/store/store.ts";
import { openWaitAs, tenantWaitsAreFull, waitsOfTenantMax } from "../../../storage/tables/asked-waits.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { waitingRun } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import {
  answerWaitOp,
  deleteWaitsOfRunOp,
  type NewWait,
  openWaitOp,
  waitsOfRun,
} from "../../../storage/tables/waits.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { eventually } from "../../support/eventually.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const call = (id: string, name: string, args: object = {}) => ({ id, name, arguments: JSON.stringify(args) });

for (const dialect of gateDialects)
  describe(`client tools, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      const spec = { tools: ["calculator"], client_tools: [{ name: "pick" }] };
      settings = processSettings(atEnd, {
        agent: spec,
        parallel: { ...spec, execution: { tools: "parallel" } },
        brief: { client_tools: [{ name: "pick", timeout_seconds: 0.001 }] },
      });
      ({ store } = await testStore(dialect, atEnd));
    });

    function start(...replies: ScriptedReply[]) {
      const answer = (messages: readonly { role: string }[]) =>
        replies[messages.filter(({ role }) => role === "assistant").length] ?? { text: ["Done."] };
      const model = new ScriptedModel(env, answer);
      const process = new ActorProcess({ env, store, settings, model, bootId: env.id() });
      atEnd.after(() => process.close());
      return { process, model };
    }
    const tenant = () => store.tenant(tenantId);
    const parked = (suffix: string) =>
      eventually("a run that is put aside", async () => {
        const head = await threadBySuffix(tenant(), suffix);
        return head && (await waitingRun(tenant(), head.thread_key))?.run_id;
      });
    async function results(suffix: string): Promise<string[]> {
      const head = await threadBySuffix(tenant(), suffix);
      const events = head ? await readEvents(tenant(), head.thread_key, 0, 1_000) : [];
      return events.filter(({ role }) => role === "tool").map(({ content }) => content);
    }
    /** Does the work of an http thread for POST /chat/tool_result. */
    async function say(process: ActorProcess | null, suffix: string, id: string, content: string): Promise<boolean> {
      const head = await threadBySuffix(tenant(), suffix);
      const wait = head && (await openWaitAs(tenant(), head.thread_key, { kind: "client_tool", asked_as: id }));
      if (!wait) return false;
      const value = { content, error: false };
      const said = await tenant()
        .write([answerWaitOp(tenant(), wait.wait_id, { value, by: "x" })])
        .then(
          () => true,
          () => false,
        );
      process?.bus.tell(runAddress(tenantId, suffix, wait.run_id), "resume", { due: false });
      return said;
    }

    /**
     * Ends a process in which a run was suspended. The run is checked once more then: a process that ends must not
     * resume it.
     */
    async function leave(process: ActorProcess, suffix: string, runId: string): Promise<void> {
      process.bus.tell(runAddress(tenantId, suffix, runId), "detach", {});
      let idle = 0;
      await eventually("an idle host", async () => {
        idle = process.host.busyCount() === 0 ? idle + 1 : 0;
        return idle > 5;
      });
      process.close();
    }

    test("an open call outlives its process, is answered once, and the run resumes", async () => {
      for (const meanwhile of [false, true]) {
        const suffix = `restart-${meanwhile}`;
        const first = start({ calls: [call("a", "pick")] });
        first.process.submit({ manifest: "agent", thread_suffix: suffix });
        const runId = await parked(suffix);
        const [wait] = await waitsOfRun(tenant(), runId);
        const id = wait?.asked_as ?? "";
        await leave(first.process, suffix, runId);
        if (meanwhile) assert.equal(await say(null, suffix, id, "early"), true);
        const second = start({ calls: [call("a", "pick")] });

        const said = await Promise.all(["A", "B"].map((content) => say(second.process, suffix, id, content)));
        await eventually("the result", async () => {
          await wakeDueRuns(store, second.process.bus);
          return (await results(suffix)).length > 0;
        });

        assert.match(id, /^call_[0-9a-f]{32}$/);
        assert.equal(wait?.frame?.data.thread_id, `${tenantId}:${suffix}`);
        assert.deepEqual(said.filter(Boolean).length, meanwhile ? 0 : 1);
        assert.deepEqual(await results(suffix), [meanwhile ? "early" : said[0] ? "A" : "B"]);
        assert.deepEqual(
          await openWaitAs(tenant(), wait?.thread_key ?? 0, { kind: "client_tool", asked_as: id }),
          undefined,
        );
        await eventually("the end", async () => second.process.deps.liveRuns.size === 0);
        assert.equal(second.model.requests.length, 1);
      }
    });

    test("an expired call without a process times out in the next one", async () => {
      const first = start({ calls: [call("a", "pick")] });
      first.process.submit({ manifest: "brief", thread_suffix: "overdue" });
      await leave(first.process, "overdue", await parked("overdue"));
      const second = start();
      await eventually("the result", async () => {
        await wakeDueRuns(store, second.process.bus);
        return (await results("overdue")).length > 0;
      });

      assert.deepEqual(await results("overdue"), ["[tool error/timeout] client tool timed out"]);
      await eventually("the end", async () => second.process.deps.liveRuns.size === 0);
      assert.equal(await wakeDueRuns(store, second.process.bus), 0);
    });

    test("an abort during the other calls of a batch closes the wait and every call", async () => {
      for (const restarts of [false, true]) {
        const suffix = `batch-${restarts}`;
        const replies = [
          { calls: [call("a", "pick"), call("b", "pick"), call("c", "calculator", { expression: "1+1" })] },
        ];
        const first = start(...replies);
        const turn = first.process.submit({ manifest: "parallel", thread_suffix: suffix });
        // Not suspended yet, where it is stopped in the same process.
        if (restarts) await parked(suffix);
        else await eventually("a request", async () => turn.outline.find((name) => name.startsWith("tool_request")));
        if (restarts) first.process.close();
        const { process } = restarts ? start(...replies) : first;
        assert.deepEqual(await process.abort(suffix), { aborted: true });

        const head = await threadBySuffix(tenant(), suffix);
        assert.deepEqual(await waitsOfRun(tenant(), turn.runId), []);
        assert.equal(await waitingRun(tenant(), head?.thread_key ?? 0), undefined);
        const said = await results(suffix);
        assert.deepEqual(said.filter((text) => text.includes("may have run (once)")).length, 2);
        assert.equal(said.length, 3);
      }
    });

    test(`a tenant has at most ${waitsOfTenantMax} open questions; its next call is refused`, async () => {
      const row = (at: number): NewWait => ({
        wait_id: `many-${at}`,
        thread_key: -1,
        suffix: "",
        run_id: "many",
        asked_on: -1,
        beside: 0,
        kind: "question",
        subject: "?",
        may_answer: { scopes: [], principal: null, not_principal: null },
        call: { tool_call_id: "c", tool: "t", args: {}, control: null },
        opened_at: 1,
        deadline: null,
        approval_id: null,
        frame: null,
        asked_as: null,
      });
      const open = async (from: number, to: number) => {
        for (let at = from; at < to; at += 500)
          await tenant().write(
            Array.from({ length: Math.min(500, to - at) }, (_, i) => openWaitOp(tenant(), row(at + i))),
          );
      };
      assert.equal(await tenantWaitsAreFull(tenant()), false);
      await open(0, waitsOfTenantMax - 1);
      assert.equal(await tenantWaitsAreFull(tenant()), false);
      await open(waitsOfTenantMax - 1, waitsOfTenantMax);

      assert.equal(await tenantWaitsAreFull(tenant()), true);
      assert.equal(await tenantWaitsAreFull(store.tenant("other")), false);
      const { process, model } = start({ calls: [call("a", "pick")] });
      const turn = process.submit({ manifest: "agent", thread_suffix: "full" });
      await turn.ended;
      assert.deepEqual(await results("full"), ["[tool error/rate_limited] too many questions of this tenant are open"]);
      assert.equal(model.requests.length, 2);
      await tenant().write([deleteWaitsOfRunOp(tenant(), "many")]);
      assert.equal(await tenantWaitsAreFull(tenant()), false);
    });
  });
