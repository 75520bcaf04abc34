// A call whose request for approval is decided: the principals that may not decide it, and the checks that run again.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { wakeDueRuns } from "../../../actors/durable/due-waits.ts";
import { ContextMemory } from "../../../actors/runtime/context-memory.ts";
import { runAddress } from "../../../bus/address.ts";
import { systemEnv } from "../../../bus/env.ts";
import { principalId } from "../../../bus/protocol/principal.ts";
import type { Control } from "../../../governance/controls/control.ts";
import { pass } from "../../../governance/controls/verdicts.ts";
import type { ActorDeps } from "../../../host/actor-deps.ts";
import type { Scope, Store } from "../../../storage/store/store.ts";
import { approvalPage, type Decision, decideOps } from "../../../storage/tables/approvals.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { waitingRun } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { eventually } from "../../support/eventually.ts";
import { ScriptedModel } from "../../support/scripted-model.ts";
import { gateDialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();
const alice = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };
const bob = { ...alice, sub: "bob" };

for (const dialect of gateDialects)
  describe(`a call that was approved, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      const gate = { id: "sums", tools: ["calculator"] };
      settings = processSettings(
        atEnd,
        {
          other: { tools: ["calculator"], approvals: [{ ...gate, require_other: true }] },
          plain: { tools: ["calculator"], approvals: [gate] },
        },
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });

    function start(
      expression: string,
      over: Store = store,
      controls: readonly Control[] = [],
      wrap = (deps: ActorDeps) => deps,
    ) {
      const call = { id: "sum", name: "calculator", arguments: JSON.stringify({ expression }) };
      const model = new ScriptedModel(env, (messages) =>
        messages.at(-1)?.role === "user" ? { calls: [call] } : { text: ["Done."] },
      );
      const made = controls.map((control) => () => control);
      const process = new ActorProcess({ env, store: over, settings, model, controls: made, bootId: env.id(), wrap });
      atEnd.after(() => process.close());
      return process;
    }
    const tenant = () => store.tenant(tenantId);
    const head = async (suffix: string) => (await threadBySuffix(tenant(), suffix)) ?? assert.fail("no thread");
    /** The run of a thread, and the request that it waits for. */
    const parked = (suffix: string) =>
      eventually("a run that is put aside", async () => {
        const found = await threadBySuffix(tenant(), suffix);
        const run = found && (await waitingRun(tenant(), found.thread_key));
        if (!run) return undefined;
        const { rows } = await approvalPage(tenant(), { thread_id: `${tenantId}:${suffix}` }, null, 1);
        return { runId: run.run_id, approvalId: rows[0]?.id ?? "" };
      });
    const approved = (edited_args: Decision["edited_args"] = null) =>
      ({ decision: "approved", note: "", edited_args }) as const;
    const result = (suffix: string) =>
      eventually("a result", async () => {
        const events = await readEvents(tenant(), (await head(suffix)).thread_key, 0, 100);
        return events.find(({ kind }) => kind === "tool_result")?.content;
      });

    test("APPR-020 a decision does not cover a caller's own call that joins later", async () => {
      const first = start("1+1");
      await first.submit({ manifest: "other", thread_suffix: "first", principal: alice }).accepted;
      const { runId, approvalId } = await parked("first");
      const deciding = beforeJoin(store, () =>
        tenant().write(decideOps(tenant(), approvalId, approved(), principalId(bob))),
      );

      await start("1+1", deciding).submit({ manifest: "other", thread_suffix: "second", principal: bob }).accepted;
      const joined = await result("second");
      first.bus.tell(runAddress(tenantId, "first", runId), "resume", { due: false });

      assert.equal(joined, "[approval for another principal to decide] tool=calculator rule=sums");
      assert.equal(await result("first"), "2");
    });

    test("APPR-021 controls check a person's arguments, and unchanged ones only once", async () => {
      // An approval admits equal calls for a while, so each call has a different sum.
      for (const [suffix, expression, edited] of [
        ["changed", "1+2", { expression: "2+2" }],
        ["unchanged", "2+1", null],
      ] as const) {
        const seen: unknown[] = [];
        const command: Control = {
          name: "command",
          before({ args }) {
            seen.push(args);
            return pass;
          },
        };
        const process = start(expression, store, [command]);
        await process.submit({ manifest: "plain", thread_suffix: suffix }).accepted;
        const { runId, approvalId } = await parked(suffix);
        await tenant().write(decideOps(tenant(), approvalId, approved(edited), principalId(bob)));
        process.bus.tell(runAddress(tenantId, suffix, runId), "resume", { due: false });

        const note = `[run with arguments that a person has edited: ${JSON.stringify(edited)}]\n`;
        assert.equal(await result(suffix), edited === null ? "3" : `${note}4`);
        assert.deepEqual(seen, edited === null ? [{ expression }] : [{ expression }, edited]);
      }
    });

    test("APPR-009 a decided run waits on while no memory for its thread is free", async () => {
      const bytes = 100_000;
      const memory = new ContextMemory(1, env);
      const process = start("8+8", store, [], (deps) => ({ ...deps, contexts: memory }));
      const messages = [{ role: "user", content: "x".repeat(bytes) }] as const;
      await process.submit({ manifest: "plain", thread_suffix: "crowded", messages }).accepted;
      const { runId, approvalId } = await parked("crowded");
      const holder = memory.room(tenantId);
      await holder.ask(bytes);
      // The number of turns of one tenant that may wait for memory.
      const waiting = Array.from({ length: 32 }, () => memory.room(tenantId)).map(async (room) => {
        await room.ask(bytes);
        room.leave();
      });
      const before = (await waitingRun(tenant(), (await head("crowded")).thread_key))?.epoch ?? 0;

      await tenant().write(decideOps(tenant(), approvalId, approved(), principalId(bob)));
      process.bus.tell(runAddress(tenantId, "crowded", runId), "resume", { due: false });
      await eventually("a run that is put aside again", async () => {
        const run = await waitingRun(tenant(), (await head("crowded")).thread_key);
        return (run?.epoch ?? 0) > before ? run : undefined;
      });
      holder.leave();
      await Promise.all(waiting);
      await wakeDueRuns(store, process.bus);

      assert.equal(await result("crowded"), "16");
    });

    test("APPR-021 a person's invalid arguments do not reach the tool", async () => {
      const process = start("5+5");
      await process.submit({ manifest: "plain", thread_suffix: "misfit" }).accepted;
      const { runId, approvalId } = await parked("misfit");
      // The route refuses them; a row may be older than the tool.
      await tenant().write(decideOps(tenant(), approvalId, approved({ nothing: 1 }), principalId(bob)));
      process.bus.tell(runAddress(tenantId, "misfit", runId), "resume", { due: false });

      assert.match(await result("misfit"), /^\[tool error\/invalid_arguments\] changed by approvals: /);
    });
  });

/** A store that writes something before a call joins a request for approval, once. */
function beforeJoin(store: Store, first: () => Promise<unknown>): Store {
  let isDone = false;
  function watching<S extends Scope>(scope: S): S {
    const write: Scope["write"] = async (ops, deadlineMs) => {
      if (!isDone && ops.some(({ statement }) => statement.name === "approval_join")) {
        isDone = true;
        await first();
      }
      return scope.write(ops, deadlineMs);
    };
    return new Proxy(scope, {
      get(target, property) {
        if (property === "write") return write;
        const value: unknown = Reflect.get(target, property, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }
  return {
    tenant: (id) => watching(store.tenant(id)),
    system: store.system,
    check: () => store.check(),
    close: () => {},
  };
}
