// A request for approval and the wait of its call are written in one batch: the store has both or neither, whatever
// follows.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { runAddress } from "../../../../bus/address.ts";
import { systemEnv } from "../../../../bus/env.ts";
import type { Scope, Store, WriteOp } from "../../../../storage/store/store.ts";
import { type ApprovalRow, approvalById, approvalPage, decideOps } from "../../../../storage/tables/approvals.ts";
import { waitsOfApproval, waitsOfRun } from "../../../../storage/tables/waits.ts";
import { ActorProcess, processSettings, type TestTurn, tenantId } from "../../../support/actor-process.ts";
import { eventually } from "../../../support/eventually.ts";
import { outcomeOf } from "../../../support/outcome.ts";
import { scopeWith } from "../../../support/scope-with.ts";
import { ScriptedModel } from "../../../support/scripted-model.ts";
import { gateDialects, testStore } from "../../../support/stores.ts";
import { cleanup } from "../../../support/temp.ts";

const env = systemEnv();
const usage = { input: 10, output: 1, cacheRead: 0, cacheWrite: 0 };
const yes = { decision: "approved", note: "", edited_args: null } as const;
const gate = { id: "sums", tools: ["calculator"], ttl_seconds: 600 };

/** Hooks of the test around the batches and reads of a process. */
interface Around {
  /** Runs after a batch with a statement of this name, before its writer gets the result. */
  written?: readonly [statement: string, work: () => Promise<void>];
  read?: readonly [statement: string, work: () => Promise<void>];
  /** The names of the statements of each. */
  batches: string[][];
}

for (const dialect of gateDialects)
  describe(`a call that asks for approval, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    let sums = 0;
    before(async () => {
      const tools = ["calculator"];
      settings = processSettings(
        atEnd,
        {
          gated: { tools, approvals: [gate] },
          bound: { tools, approvals: [{ ...gate, bind_principal: true }] },
        },
        { SVC_AUDIT_FLUSH_SECONDS: "3600" },
      );
      ({ store } = await testStore(dialect, atEnd));
    });
    const tenant = () => store.tenant(tenantId);

    /** The store of a process, with the hooks of the test around it. */
    function watched(around: Around): Store {
      const watching = <S extends Scope>(scope: S): S => {
        const write = async (ops: readonly WriteOp[], ...rest: unknown[]) => {
          around.batches.push(ops.map(({ statement }) => statement.name));
          const rows = await scope.write(ops, ...(rest as []));
          const [name, work] = around.written ?? [];
          if (ops.some(({ statement }) => statement.name === name)) await work?.();
          return rows;
        };
        const read: Scope["read"] = async (statement, ...params) => {
          const rows = await scope.read(statement, ...params);
          const [name, work] = around.read ?? [];
          if (statement.name === name) await work?.();
          return rows;
        };
        return scopeWith(scope, { write, read });
      };
      return { ...store, tenant: (id) => watching(store.tenant(id)), system: watching(store.system), close: () => {} };
    }

    /** A process whose model asks for a sum that is unique to the test. */
    function start(around: Around = { batches: [] }, expression = `1+${1000 + ++sums}`) {
      const calls = [{ id: "sum", name: "calculator", arguments: JSON.stringify({ expression }) }];
      const model = new ScriptedModel(env, (messages) =>
        messages.at(-1)?.role === "tool" ? { text: ["Done."], usage } : { calls, usage },
      );
      const process = new ActorProcess({ env, store: watched(around), settings, model, bootId: env.id() });
      atEnd.after(() => process.close());
      return { process, expression };
    }

    const requestsOf = async (expression: string): Promise<ApprovalRow[]> => {
      const { rows } = await approvalPage(tenant(), {}, null, 200);
      return rows.filter(({ args }) => (JSON.parse(args) as { expression: string }).expression === expression);
    };
    const asked = (turn: TestTurn) =>
      eventually("what its client is told", async () => turn.frames.find(({ name }) => name === "approval_required"));
    const results = (turn: TestTurn) =>
      turn.frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
    async function decide(process: ActorProcess, id: string): Promise<void> {
      await tenant().write(decideOps(tenant(), id, yes, "bob"));
      for (const { suffix, run_id } of await waitsOfApproval(tenant(), id))
        process.bus.tell(runAddress(tenantId, suffix || null, run_id), "resume", { due: false });
    }

    test("APPR-009 whose process dies as the request is written leaves none open", async () => {
      const around: Around = { batches: [] };
      const { process, expression } = start(around);
      const { promise: gone, resolve } = Promise.withResolvers<void>();
      around.written = [
        "approval_insert",
        async () => {
          process.close();
          resolve();
        },
      ];
      const turn = process.submit({ manifest: "gated", thread_suffix: "killed" });
      await gone;
      const [before] = await requestsOf(expression);
      const waits = await waitsOfRun(tenant(), turn.runId);

      const next = start();
      await next.process.abort("killed");

      assert.deepEqual(
        waits.map(({ approval_id, state }) => [approval_id, state]),
        [[before?.id, "open"]],
      );
      const [after] = await requestsOf(expression);
      assert.deepEqual([before?.status, after?.status, after?.decision?.by], ["pending", "denied", "svc"]);
      assert.deepEqual(await outcomeOf(decide(next.process, before?.id ?? "")), { refused: "conflict" });
      assert.deepEqual(await waitsOfRun(tenant(), turn.runId), []);
    });

    for (const thread_suffix of ["stopped", null])
      test(`APPR-009 that is stopped as the request is written closes it, ${thread_suffix ? "on" : "without"} a thread`, async () => {
        const around: Around = { batches: [] };
        const { process, expression } = start(around);
        const turn = process.submit({ manifest: "gated", thread_suffix });
        around.written = [
          "approval_insert",
          async () => {
            process.bus.tell(runAddress(tenantId, thread_suffix, turn.runId), "abort", { reason: "client" });
            await process.bus.ask(runAddress(tenantId, thread_suffix, turn.runId), "status", {});
          },
        ];
        await turn.ended;

        const [request] = await requestsOf(expression);
        assert.deepEqual([request?.status, request?.decision?.by], ["denied", "svc"]);
        assert.deepEqual(await waitsOfRun(tenant(), turn.runId), []);
      });

    test("APPR-004 APPR-010 one of equal concurrent calls asks, the others wait for it", async () => {
      const around: Around = { batches: [] };
      const { process, expression } = start(around);
      const suffixes = ["equal-1", "equal-2", null];
      const { promise: all, resolve } = Promise.withResolvers<void>();
      let looks = 0;
      around.read = [
        "approval_pending",
        () => {
          if (++looks === suffixes.length) resolve();
          return all;
        },
      ];
      const turns = suffixes.map((thread_suffix) => process.submit({ manifest: "gated", thread_suffix }));
      const told = await Promise.all(turns.map(asked));
      const [request, ...others] = await requestsOf(expression);
      assert.ok(request);
      const waits = await waitsOfApproval(tenant(), request.id);

      await decide(process, request.id);
      for (const turn of turns) await turn.ended;

      assert.deepEqual(others, []);
      const { id, deadline } = request;
      assert.deepEqual(
        told.map(({ json: { data } }) => [data.approval_id, data.expires_at]),
        suffixes.map(() => [id, deadline]),
      );
      // A later client gets the stored question.
      assert.deepEqual(
        waits.map(({ frame }) => [frame?.data.approval_id, frame?.data.expires_at]),
        suffixes.map(() => [id, deadline]),
      );
      assert.ok(
        waits.every((wait) => wait.deadline !== null && wait.deadline <= deadline),
        "no wait outlives its request",
      );
      const sum = String(1 + Number(expression.slice(2)));
      assert.deepEqual(turns.map(results), [[sum], [sum], [sum]]);
      assert.equal((await approvalById(tenant(), id))?.status, "approved");
      assert.deepEqual(process.crashes, []);
    });

    test("APPR-018 one of equal calls with separate principals asks, the other is refused", async () => {
      const around: Around = { batches: [] };
      const { process, expression } = start(around);
      const { promise: both, resolve } = Promise.withResolvers<void>();
      let looks = 0;
      around.read = [
        "approval_pending",
        () => {
          if (++looks === 2) resolve();
          return both;
        },
      ];
      const principal = (sub: string) => ({ tenant_id: tenantId, sub, scopes: [], scheme: "none", issuer: "" });
      const turns = ["ann", "ben"].map((sub) =>
        process.submit({ manifest: "bound", thread_suffix: `bound-${sub}`, principal: principal(sub) }),
      );
      const refused = await Promise.race(turns.map((turn) => turn.ended.then(() => turn)));
      const waiting = turns.find((turn) => turn !== refused);
      assert.ok(waiting);
      const { json } = await asked(waiting);

      await decide(process, json.data.approval_id);
      await waiting.ended;

      assert.match(String(results(refused)), /pending for another principal/);
      assert.ok(!refused.outline.some((line) => line.startsWith("approval_required")), "it was not asked");
      assert.deepEqual(results(waiting), [String(1 + Number(expression.slice(2)))]);
      assert.equal((await requestsOf(expression)).length, 1);
    });

    test("writes its request, its wait and their events in one batch", async () => {
      const around: Around = { batches: [] };
      const { process } = start(around);
      const turn = process.submit({ manifest: "gated", thread_suffix: "counted" });
      await asked(turn);

      const asking = around.batches.filter((names) => names.some((name) => /approval|waits/.test(name)));
      assert.deepEqual(asking, [
        [
          ...["thread_growth", "events_insert"],
          ...["approval_lapse", "approval_insert", "waits_insert", "approval_adopt"],
        ],
      ]);
      await process.abort("counted");
    });
  });
