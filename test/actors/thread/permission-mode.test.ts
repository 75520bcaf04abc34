// A permission mode is set during other work of a thread: other writes, turns that begin, a process that dies.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { runAddress, threadAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import type { PermissionMode } from "../../../bus/protocol/permission-mode.ts";
import { principalId } from "../../../bus/protocol/principal.ts";
import type { Store } from "../../../storage/store/store.ts";
import { approvalPage, decideOps } from "../../../storage/tables/approvals.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { waitingRun } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { eventually } from "../../support/eventually.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { stoppingStore } from "../../support/stopping-store.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };
const styles = ["a", "b", "c"].map((name) => ({ name, prompt: `Style ${name}.` }));

for (const dialect of gateDialects)
  describe(`the permission mode of a thread, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      settings = processSettings(
        atEnd,
        {
          agent: { tools: ["calculator", "todo_write"], output_styles: { styles } },
          parallel: { tools: ["calculator"], execution: { tools: "parallel" } },
          planner: { tools: ["todo_write"], permissions: { default_mode: "plan" } },
        },
        // Audit rows would be further batches.
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });

    const call = (id: string, name: string, args: object) => ({ id, name, arguments: JSON.stringify(args) });
    const todo = (id: string) => call(id, "todo_write", { todos: [{ content: id }] });

    /** A process whose model makes a plan on demand, and records its next action before and after. */
    function start(over: Store = store) {
      const model = new ScriptedModel(env, (messages) => {
        const at = messages.findLastIndex(({ role }) => role === "user");
        const [first, second] = ["a", "b"].map((id) => call(id, "exit_plan_mode", { plan: id }));
        if (messages[at]?.content === "plans" && at === messages.length - 1 && first && second)
          return { calls: [first, second] };
        if (messages[at]?.content !== "plan") return { text: ["Done."] };
        const step = messages.slice(at).filter(({ role }) => role === "assistant").length;
        const steps = [[todo("before")], [call("exit", "exit_plan_mode", { plan: "All." })], [todo("after")]] as const;
        const calls = steps[step];
        return calls === undefined ? { text: ["Done."] } : { calls };
      });
      const process = new ActorProcess({ env, store: over, settings, model, bootId: env.id() });
      atEnd.after(() => process.close());
      const set = (suffix: string, mode: PermissionMode) =>
        process.bus.ask(threadAddress(tenantId, suffix), "mode", { mode, manifest: null, principal });
      const pick = (suffix: string, style: string) =>
        process.bus.ask(threadAddress(tenantId, suffix), "style", { style, manifest: "agent", principal });
      const think = (suffix: string, level: "low" | "high") =>
        process.bus.ask(threadAddress(tenantId, suffix), "think", { level });
      const submit = (suffix: string, content: string, manifest = "agent") =>
        process.submit({ manifest, thread_suffix: suffix, messages: [{ role: "user", content }] });
      return { process, set, pick, think, submit };
    }
    const tenant = () => store.tenant(tenantId);
    const head = async (suffix: string) => (await threadBySuffix(tenant(), suffix)) ?? assert.fail("no thread");
    const kept = async (suffix: string) => (await head(suffix)).meta;
    const parked = (suffix: string) =>
      eventually("a run that is put aside", async () => {
        const found = await threadBySuffix(tenant(), suffix);
        return found && (await waitingRun(tenant(), found.thread_key))?.run_id;
      });
    async function approve(suffix: string): Promise<number> {
      const { rows } = await approvalPage(tenant(), { status: "pending", thread_id: `${tenantId}:${suffix}` }, null, 9);
      const own = ["plan-approval", 1, principalId(principal), 1800];
      assert.deepEqual(
        rows.map(({ rule_id, one_shot, bound_to, ttl_seconds }) => [rule_id, one_shot, bound_to, ttl_seconds]),
        rows.map(() => own),
      );
      const decision = { decision: "approved", note: "", edited_args: null } as const;
      for (const { id } of rows) await tenant().write(decideOps(tenant(), id, decision, "bob"));
      return rows.length;
    }
    async function results(suffix: string): Promise<Map<string | undefined, string>> {
      const events = await readEvents(tenant(), (await head(suffix)).thread_key, 0, 1_000);
      const told = events.filter(({ kind }) => kind === "tool_result");
      return new Map(told.map(({ content, extra }) => [extra?.tool_call_id, content]));
    }

    test("STREAM-041 a process that dies in an approval leaves a consistent state", async () => {
      const never = Number.POSITIVE_INFINITY;
      /** A run that waits for its plan. The plan is approved when its process can no longer write. */
      async function approved(suffix: string, until: number) {
        const own = stoppingStore(store, until, true);
        const { process, set, submit } = start(own);
        await set(suffix, "plan");
        await submit(suffix, "plan").accepted;
        const runId = await parked(suffix);
        // It checks once more for an answer.
        own.end();
        process.close();
        await approve(suffix);
        return { runId, batches: own.batches };
      }
      function resume(over: Store, suffix: string, runId: string): ActorProcess {
        const { process } = start(over);
        process.bus.tell(runAddress(tenantId, suffix, runId), "resume", { due: false });
        return process;
      }
      const uncut = await approved("uncut", never);
      const whole = stoppingStore(store, never, true);
      resume(whole, "uncut", uncut.runId);
      await eventually("its end", async () => (await results("uncut")).has("after"));
      assert.equal((await kept("uncut")).permission_mode, "default");
      const seen = new Set<string>();

      for (let batches = 0; batches < whole.batches; batches++)
        for (const answered of [true, false]) {
          const suffix = `dies-${batches}-${answered}`;
          const { runId } = await approved(suffix, uncut.batches);
          const dying = stoppingStore(store, batches, answered);
          const process = resume(dying, suffix, runId);
          await dying.stopped;
          process.close();

          const next = start();
          await next.process.bus.ask(threadAddress(tenantId, suffix), "recover", {});
          const told = (await results(suffix)).get("exit") ?? "none";
          const mode = told.startsWith("the plan is approved") ? "default" : "plan";
          assert.equal((await kept(suffix)).permission_mode, mode, `${suffix}: ${told}`);
          next.process.close();
          seen.add(mode);
        }

      assert.deepEqual([...seen], ["plan", "default"]);
    });

    test("STREAM-041 SESS-011 a setting and an approved plan do not overwrite each other", async () => {
      for (let at = 0; at < 6; at++) {
        const suffix = `busy-${at}`;
        const { process, set, pick, think, submit } = start();
        await set(suffix, "plan");
        const turn = submit(suffix, "plan");
        await turn.accepted;
        const runId = await parked(suffix);
        await approve(suffix);

        process.bus.tell(runAddress(tenantId, suffix, runId), "resume", { due: false });
        const settings = ["a", "b", "c"].map(async (style) => {
          await pick(suffix, style);
          await think(suffix, style === "a" ? "low" : "high");
        });
        await Promise.all([turn.ended, ...settings]);
        await submit(suffix, "go").ended;

        const { permission_mode, output_style, thinking_level } = await kept(suffix);
        assert.equal(permission_mode, "default");
        assert.ok(["a", "b", "c"].includes(output_style ?? ""));
        assert.equal(thinking_level, "high");
        assert.deepEqual(process.crashes, []);
        process.close();
      }
    });

    test("STREAM-041 only the first of several plans approved at once ends the mode", async () => {
      const { process, set, submit } = start();
      await set("plans", "plan");
      const turn = submit("plans", "plans", "parallel");
      await turn.accepted;
      const runId = await parked("plans");
      const approved = await approve("plans");

      process.bus.tell(runAddress(tenantId, "plans", runId), "resume", { due: false });
      await turn.ended;

      const told = [...(await results("plans")).values()].map((text) => text.split("\n")[0]);
      const sentence = "the plan is approved and plan mode is over: carry it out";
      assert.deepEqual([approved, told], [2, [sentence, sentence]]);
      assert.equal(turn.frames.filter(({ name }) => name === "permission_mode_changed").length, 1);
      assert.equal((await kept("plans")).permission_mode, "default");
    });

    test("SESS-011 during turns each mode is stored in order and no turn is lost", async () => {
      const { process, set, submit } = start();
      const modes = Array.from(
        { length: 9 },
        (_, at) => (["plan", "default", "accept_edits"] as const)[at % 3] ?? "plan",
      );

      for (const mode of modes) {
        const turn = submit("turns", "go");
        await Promise.all([turn.ended, set("turns", mode), set("turns", "default"), set("turns", mode)]);
        assert.equal((await kept("turns")).permission_mode, mode);
      }

      assert.deepEqual(process.crashes, []);
    });

    test("SESS-011 a thread begins in its manifest's mode, also after another setting", async () => {
      const { submit, think } = start();
      await submit("born", "go", "planner").ended;
      await think("made", "low");
      await submit("made", "go", "planner").ended;
      await submit("plain", "go").ended;

      assert.deepEqual(await kept("born"), { permission_mode: "plan" });
      assert.deepEqual(await kept("made"), { thinking_level: "low", permission_mode: "plan" });
      assert.deepEqual(await kept("plain"), {});
    });
  });
