// The effect of time on durable runs: back-off, death, expiry, slots and their order. The clock is simulated, and the
// store's too.

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { pino } from "pino";
import { lostMax } from "../../../actors/log/lost-steps.ts";
import { durableAddress, runAddress, threadAddress } from "../../../bus/address.ts";
import type { Env } from "../../../bus/env.ts";
import { SvcError } from "../../../bus/errors.ts";
import { Metrics } from "../../../governance/metrics.ts";
import { periodicTasks } from "../../../host/periodic-tasks.ts";
import { startTasks } from "../../../host/task-runner.ts";
import { ArtifactStore } from "../../../storage/files/artifact-store.ts";
import { DocumentFiles } from "../../../storage/files/document-files.ts";
import { FileStore } from "../../../storage/files/file-store.ts";
import type { Store } from "../../../storage/store/store.ts";
import { decideOps } from "../../../storage/tables/approvals.ts";
import {
  type DurableRunRow,
  durableRowById,
  loseDurableOp,
  wakeDurableOp,
} from "../../../storage/tables/durable-rows.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { manifestBody } from "../../../storage/tables/manifest-bodies.ts";
import { type RunRow, runByKey } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { waitsOfRun } from "../../../storage/tables/waits.ts";
import { ActorProcess, type AskedTurn, processSettings, tenantId } from "../../support/actor-process.ts";
import { noVectors } from "../../support/no-vectors.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import type { Env as Settable } from "../../support/server.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { type Cleanup, cleanup } from "../../support/temp.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const call = { id: "sum", name: "calculator", arguments: '{"expression":"6*7"}' };
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
const done: ScriptedReply = { text: ["Done."], usage };
const broken: ScriptedReply = { failure: "the provider is gone" };
const tasks = ["fiber_poll", "fiber_scheduler", "due_waits", "old_runs"];
const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };

/** How a batch times out and is applied later: the delay, and whether its writer hears of it. */
interface Late {
  readonly statement: string;
  readonly afterMs: number;
  readonly isTold: boolean;
}

/** The message in an event of a sub-agent. */
interface InnerMessage {
  readonly content?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly { readonly id: string }[];
}

/** A store that refuses batches with one statement, and times out another, after the writer's own time. */
function refusing(store: Store, env: Env, refused: () => string | null, late: () => Late | null): Store {
  const instead = <T extends object, K extends keyof T>(of: T, name: K, method: T[K]): T =>
    new Proxy(of, {
      get(target, property) {
        if (property === name) return method;
        const value: unknown = Reflect.get(target, property, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  return instead(store, "tenant", (id) => {
    const tenant = store.tenant(id);
    return instead(tenant, "write", async (ops, deadlineMs, onLate) => {
      const has = (name: string | undefined) => ops.some(({ statement }) => statement.name === name);
      if (has(refused() ?? undefined)) throw new SvcError("storage_unavailable");
      const given = late();
      if (given === null || !has(given.statement)) return tenant.write(ops, deadlineMs);
      const wait = (ms: number) => new Promise<void>((resolve) => void env.timer(ms, resolve));
      void wait((deadlineMs ?? 0) + given.afterMs)
        .then(() => tenant.write(ops))
        .then(() => given.isTold && onLate?.());
      await wait(deadlineMs ?? 0);
      throw new SvcError("storage_unavailable");
    });
  });
}

/** Successive processes on a disk, with the periodic tasks of a server for durable runs. */
async function world(atEnd: Cleanup, seed: number, env: Settable = {}) {
  const sim = new Sim(seed);
  const disk = await SimDisk.open(atEnd);
  const execution = { mode: "durable", resume_token_ttl_seconds: 30 };
  const prompt = (inline: string) => ({ system_prompt: { inline } });
  const gate = { id: "sums", tools: ["calculator"], ttl_seconds: 600 };
  let settings = processSettings(
    atEnd,
    {
      agent: { tools: ["calculator"], execution },
      gated: { tools: ["calculator"], execution, approvals: [gate] },
      capped: { execution, limits: { max_output_tokens: 300 } },
      plans: { pattern: "plan_execute", plan_execute: { max_replans: 1 }, execution },
      over: {
        ...{ tools: ["calculator"], approvals: [gate], delegation: { agents: [{ name: "asker" }] } },
        execution: { ...execution, tools: "parallel" },
      },
      asker: { tools: ["calculator"], approvals: [gate] },
      adder: { ...prompt("sum"), tools: ["calculator"], approvals: [gate] },
      questioner: { ...prompt("which"), tools: ["ask_user"] },
      picker: { ...prompt("pick"), client_tools: [{ name: "pick", description: "Picks." }] },
      pair: { pattern: "parallel", sub_agents: ["questioner", "picker"] },
      team: { pattern: "parallel", sub_agents: ["adder", "pair"], execution },
      timed: { tools: ["calculator"], execution, approvals: [gate], limits: { max_wall_clock_seconds: 5 } },
    },
    { SVC_AUDIT_FLUSH_SECONDS: "3600", ...env },
  );
  let answer: (messages: readonly ShownMessage[]) => ScriptedReply = () => done;
  let boots = 0;
  let refused: string | null = null;
  let late: Late | null = null;
  const askedAt: number[] = [];

  function boot() {
    const env = sim.env();
    const store = refusing(
      disk.store(sim, env),
      env,
      () => refused,
      () => {
        const given = late;
        late = null;
        return given;
      },
    );
    const model = new ScriptedModel(
      env,
      (messages) => {
        askedAt.push(sim.now);
        return answer(messages);
      },
      () => 5,
    );
    const bootId = `host-${boots++}`;
    const process = new ActorProcess({ env, store, settings, model, bootId });
    const files = new FileStore(null, env, 0);
    const made = periodicTasks({
      store,
      textVectors: noVectors(env, store),
      skillImports: null as never,
      metrics: new Metrics(),
      settings,
      lease: null as never,
      env,
      bus: process.bus,
      files,
      artifacts: new ArtifactStore(null, env),
      documentFiles: new DocumentFiles(null, env),
      host: bootId,
      startedAt: env.now(),
      redis: null,
      flush: async () => true,
      log: pino({ level: "silent" }),
    });
    const stop = startTasks(
      made.filter(({ name }) => tasks.includes(name)),
      env,
      pino({ level: "silent" }),
      settings,
    );
    return { env, store, process, stop, bootId, tenant: store.tenant(tenantId) };
  }
  let now = boot();
  const world = {
    sim,
    askedAt,
    says(to: typeof answer) {
      answer = to;
    },
    get tenant() {
      return now.tenant;
    },
    get process() {
      return now.process;
    },
    query(sql: string) {
      return disk.query(sql);
    },
    /** True if a slot is free at once; returns the slot. */
    async freeSlot(): Promise<boolean> {
      const place = { tenant_id: tenantId, suffix: "asks", run_id: "asks" };
      const { go } = await sim.until(now.process.bus.ask(durableAddress(now.bootId), "begin", place));
      if (go) now.process.bus.tell(durableAddress(now.bootId), "left", place);
      return go;
    },
    /** Refuses batches with this statement, until called with null. */
    refuses(statement: string | null) {
      refused = statement;
    },
    /** The next batch with this statement times out, and is applied. */
    answersLate(how: Late) {
      late = how;
    },
    /** From the next process on the tenant is blocked. */
    revokes() {
      settings = { ...settings, allowedTenants: ["another"] };
    },
    /** The process resumes nothing more. */
    drains() {
      now.process.bus.tell(durableAddress(now.bootId), "drain", {});
    },
    /** The process stops its active runs, like a drain at its deadline. */
    stops() {
      for (const run of now.process.deps.liveRuns) run.abort("shutdown");
    },
    /** The process ends without warning. */
    crash() {
      now.env.end();
    },
    boot() {
      now = boot();
    },
    async accept(manifest: string, fields: Partial<AskedTurn> = {}): Promise<string> {
      const turn = now.process.submit({ manifest, thread_suffix: null, principal, surface: "chat", ...fields });
      const accepted = await sim.until(turn.accepted);
      assert.equal(accepted.kind, "accepted");
      return turn.runId;
    },
    async look(runId: string, tenant = tenantId): Promise<{ durableRun: DurableRunRow; run: RunRow }> {
      const store = now.store.tenant(tenant);
      const durableRun = (await sim.until(durableRowById(store, runId))) as DurableRunRow;
      return { durableRun, run: (await sim.until(runByKey(store, durableRun.run_key))) as RunRow };
    },
  };
  return world;
}

describe("durable runs in time", () => {
  const atEnd = cleanup();

  test("DUR-012 DUR-013 a failed step is retried after 1, 2 … 60 minutes, then dead", async () => {
    const it = await world(atEnd, 1, { SVC_FIBER_MAX_ATTEMPTS: "9" });
    it.says(() => broken);
    const runId = await it.accept("agent");
    await it.sim.advance(10_000);
    const { durableRun, run } = await it.look(runId);
    assert.deepEqual([run.status, durableRun.attempts], ["waiting", 1]);
    assert.ok(durableRun.expires_at >= (durableRun.wake_at ?? 0) + minuteMs, "it does not expire before its next try");

    await it.sim.advance(8 * hourMs);

    // Each try is three requests to a silent provider.
    const tries = it.askedAt.filter((at, n) => n === 0 || at - (it.askedAt[n - 1] as number) > 30_000);
    const minutes = tries.slice(1).map((at, n) => Math.floor((at - (tries[n] as number)) / minuteMs));
    assert.deepEqual(minutes, [1, 2, 4, 8, 16, 32, 60, 60]);
    const dead = await it.look(runId);
    assert.deepEqual([dead.run.status, dead.run.result?.error], ["dead", "model_failed"]);
    assert.match(dead.durableRun.error ?? "", /^model_failed: model provider failed/);
  });

  test("DUR-012 five failures in a row are the end, and a success resets the count", async () => {
    const it = await world(atEnd, 2);
    const from = it.sim.now;
    // Four failures, a call, and then failures only.
    it.says((messages) => {
      if (messages.at(-1)?.role === "tool") return broken;
      return it.sim.now < from + 10 * minuteMs ? broken : { calls: [call], usage };
    });
    const runId = await it.accept("agent");

    await it.sim.advance(15 * minuteMs + 30_000);
    const after = await it.look(runId);
    await it.sim.advance(3 * hourMs);
    const end = await it.look(runId);

    assert.equal(after.run.spent?.tool_calls, 1, "its fifth try has succeeded");
    assert.deepEqual([after.run.status, after.durableRun.attempts], ["waiting", 1]);
    assert.equal(end.run.status, "dead");
  });

  test("DUR-012 the number of tries and the back-off survive the process", async () => {
    const it = await world(atEnd, 3);
    it.says(() => broken);
    const runId = await it.accept("agent");
    await it.sim.advance(5_000);
    it.crash();
    it.says(() => done);
    await it.sim.advance(20_000);
    it.boot();

    await it.sim.advance(20_000);
    const before = await it.look(runId);
    await it.sim.advance(30_000);
    const { run, durableRun } = await it.look(runId);

    assert.deepEqual([before.run.status, before.durableRun.attempts], ["waiting", 1]);
    assert.deepEqual([run.status, durableRun.final], ["completed", "Done."]);
  });

  test("DUR-012 a failed plan is replanned within its bound", async () => {
    const it = await world(atEnd, 31);
    const plan = (title: string): ScriptedReply => ({ text: [JSON.stringify({ subtasks: [{ title, task: title }] })] });
    let isAway = true;
    it.says((messages) => {
      const all = messages.map(({ content }) => content).join("\n");
      const isPlanner = messages[0]?.content.startsWith("You plan");
      if (isPlanner && !all.includes("FAILED")) return plan("one");
      if (isPlanner && isAway) return broken;
      if (isPlanner) return plan("two");
      return { text: [all.includes("are over") ? "Sorry." : "FAILED."], usage };
    });
    const runId = await it.accept("plans");
    await it.sim.advance(5_000);
    const before = await it.look(runId);
    isAway = false;
    await it.sim.advance(2 * minuteMs);
    const { run, durableRun } = await it.look(runId);

    assert.deepEqual([before.run.status, before.durableRun.attempts], ["waiting", 1]);
    assert.deepEqual([run.status, durableRun.final], ["completed", "Sorry."]);
    const events = await it.sim.until(readEvents(it.tenant, run.thread_key ?? -1, 0, 100));
    const notes = events.map(({ extra }) => {
      const { type, title, subtasks } = (extra?.metadata ?? {}) as {
        type?: string;
        title?: string;
        subtasks?: { title: string }[];
      };
      return [type, title ?? subtasks?.[0]?.title];
    });
    assert.deepEqual(
      notes.filter(([type]) => type === "plan" || type === "subtask"),
      [
        ["plan", "one"],
        ["subtask", "one"],
        ["plan", "two"],
        ["subtask", "two"],
      ],
    );
  });

  test("DUR-012 a run that finds no memory to resume is retried, however often, and does not die", async () => {
    const it = await world(atEnd, 36);
    it.says((messages) => (messages.at(-1)?.role === "user" ? { calls: [call], usage } : done));
    const messages = [{ role: "user", content: "x".repeat(100_000) }] as const;
    const runId = await it.accept("gated", { thread_suffix: "crowded", messages });
    await it.sim.advance(5_000);
    const holder = it.process.deps.contexts.room(tenantId);
    await holder.ask(2 ** 40);
    const [wait] = await it.sim.until(waitsOfRun(it.tenant, runId));
    const decision = { decision: "approved", note: "", edited_args: null } as const;
    await it.sim.until(it.tenant.write(decideOps(it.tenant, wait?.approval_id ?? "", decision, "bob")));

    await it.sim.advance(75 * minuteMs);
    const crowded = await it.look(runId);
    holder.leave();
    await it.sim.advance(2 * minuteMs);
    const after = await it.look(runId);

    const { lost, attempts, ended_at } = crowded.durableRun;
    assert.deepEqual([lost, attempts, ended_at], [0, 0, null]);
    assert.deepEqual([after.run.status, after.durableRun.final], ["completed", "Done."]);
  });

  test("DUR-012 a run whose writes find a full queue is retried, however often, and does not die", async () => {
    const it = await world(atEnd, 37);
    it.says((messages) => (messages.at(-1)?.role === "user" ? { calls: [call], usage } : done));
    const { bus } = it.process;
    const ask = bus.ask.bind(bus) as (...asked: readonly unknown[]) => Promise<unknown>;
    let isFull = true;
    let refusals = 0;
    const refuses = (type: unknown) => isFull && (type === "append" || (type === "suspend" && ++refusals % 3 > 0));
    Object.assign(bus, {
      ask: (...asked: readonly unknown[]) =>
        refuses(asked[1]) ? Promise.reject(new SvcError("mailbox_full")) : ask(...asked),
    });
    const runId = await it.accept("agent", { thread_suffix: "full" });

    await it.sim.advance(40 * minuteMs);
    const full = await it.look(runId);
    isFull = false;
    await it.sim.advance(2 * minuteMs);
    const after = await it.look(runId);

    const { lost, attempts } = full.durableRun;
    assert.deepEqual([full.run.status, lost, attempts], ["waiting", 0, 0]);
    assert.deepEqual([after.run.status, after.durableRun.final], ["completed", "Done."]);
  });

  test("DUR-009 DUR-006 an unanswered run resumes at the deadline, or expires", async () => {
    const it = await world(atEnd, 4);
    it.says((messages) => (messages.at(-1)?.role === "user" ? { calls: [call], usage } : done));
    const served = await it.accept("gated", { thread_suffix: "served" });
    await it.sim.advance(5_000);
    const { durableRun, run } = await it.look(served);
    const [wait] = await it.sim.until(waitsOfRun(it.tenant, served));
    assert.equal(run.status, "waiting");
    assert.equal(durableRun.expires_at, (wait?.deadline ?? 0) + minuteMs, "longer than its 30 seconds");

    await it.sim.advance(11 * minuteMs);
    const onTime = await it.look(served);
    const left = await it.accept("gated", { thread_suffix: "left" });
    await it.sim.advance(5_000);
    it.crash();
    await it.sim.advance(hourMs);
    it.boot();
    await it.sim.advance(5_000);
    const late = await it.look(left);

    assert.deepEqual([onTime.run.status, onTime.durableRun.final], ["completed", "Done."]);
    assert.deepEqual([late.run.status, late.durableRun.error], ["expired", "run_expired"]);
    assert.deepEqual(await it.sim.until(waitsOfRun(it.tenant, left)), [], "what it has asked is closed");
    it.says(() => done);
    await it.accept("agent", { thread_suffix: "left" });
  });

  test("DUR-009 DEL-004 a run that is not let in leaves no task that waits for a person", async () => {
    const it = await world(atEnd, 32);
    const task = { id: "task", name: "task", arguments: JSON.stringify({ agent: "asker", prompt: "Add." }) };
    it.says((messages) => {
      if (messages.at(-1)?.role !== "user") return done;
      return { calls: messages.at(-1)?.content === "Add." ? [call] : [task, call], usage };
    });
    const runId = await it.accept("over", { thread_suffix: "over", principal: { ...principal, scheme: "api_key" } });
    await it.sim.advance(5_000);
    const [own] = await it.sim.until(waitsOfRun(it.tenant, runId)).then((all) => all.filter((w) => w.approval_id));
    it.crash();
    it.revokes();
    it.boot();
    const decision = { decision: "approved", note: "", edited_args: null } as const;
    await it.sim.until(it.tenant.write(decideOps(it.tenant, own?.approval_id ?? "", decision, "bob")));
    await it.sim.advance(2 * minuteMs);

    const { run, durableRun } = await it.look(runId);
    const values = (sql: string) => it.query(sql).map((row) => Object.values(row)[0]);
    assert.deepEqual([run.status, durableRun.error], ["failed", "principal_revoked"]);
    assert.deepEqual(values("SELECT status FROM runs WHERE manifest = 'asker'"), ["failed"]);
    assert.deepEqual(values("SELECT status FROM approvals WHERE manifest_id = 'asker'"), ["denied"]);
    assert.deepEqual(values("SELECT kind FROM waits WHERE state = 'open'"), []);
  });

  /** A durable run with three sub-agents, one of them nested, that each wait for an answer. */
  async function waitingTeam(seed: number) {
    const it = await world(atEnd, seed);
    const which = { id: "which", name: "ask_user", arguments: '{"question":"Which?"}' };
    const asks = [call, which, { id: "pick", name: "pick", arguments: "{}" }];
    it.says(([system]) => {
      const calls = asks.filter(({ id }) => system?.content.startsWith(id));
      return calls.length > 0 ? { calls, usage } : done;
    });
    // Questions and client tools need a client that listens.
    it.process.bus.subscribe(threadAddress(tenantId, "team"), () => {});
    const runId = await it.accept("team", {
      ...{ thread_suffix: "team", surface: "chat_stream", principal: { ...principal, scheme: "api_key" } },
    });
    await it.sim.advance(5_000);
    const openWaits = async (id: string) =>
      (await it.sim.until(waitsOfRun(it.tenant, id))).filter(({ state }) => state === "open").length;
    assert.equal(await openWaits(runId), 3);
    const { run } = await it.look(runId);
    /** The sub-agents' calls and their results in the log, and the events. */
    const logged = async () => {
      const events = await it.sim.until(readEvents(it.tenant, run.thread_key ?? -1, 0, 100));
      const inner = events.map(({ extra }) => (extra?.metadata?.inner ?? {}) as InnerMessage);
      return {
        events,
        calls: inner.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id)).toSorted(),
        results: inner.filter(({ tool_call_id }) => tool_call_id !== undefined),
      };
    };
    const lose = async () => {
      for (let lost = 0; lost < lostMax; lost++)
        await it.sim.until(it.tenant.write([loseDurableOp(it.tenant, runId, 0)]));
      await it.sim.advance(2 * minuteMs);
    };
    return { it, runId, openWaits, logged, lose };
  }
  const assertClosed = ({ calls, results }: { calls: string[]; results: InnerMessage[] }) => {
    assert.equal(calls.length, 3);
    assert.deepEqual(results.map(({ tool_call_id }) => tool_call_id).toSorted(), calls);
    for (const { content } of results) assert.match(content ?? "", /^\[tool error\/interrupted\] /);
  };

  for (const [why, status, error] of [
    ["expires", "expired", "run_expired"],
    ["is refused", "failed", "principal_revoked"],
  ] as const)
    test(`APPR-009 the waiting calls of all sub-agents get results when their run ${why}`, async () => {
      const { it, runId, logged } = await waitingTeam(33);
      it.crash();
      if (why === "expires") await it.sim.advance(8 * dayMs);
      else it.revokes();
      it.boot();
      if (why === "is refused") await it.sim.until(it.tenant.write([wakeDurableOp(it.tenant, runId)]));

      await it.sim.advance(2 * minuteMs);

      const { run, durableRun } = await it.look(runId);
      assert.deepEqual([run.status, durableRun.error], [status, error]);
      assertClosed(await logged());
      assert.equal((await logged()).events.at(-1)?.extra?.metadata?.type, "run_interrupted");
    });

  test("APPR-009 the next turn gives results to the waiting calls of a dead run's sub-agents", async () => {
    const { it, runId, logged, lose } = await waitingTeam(34);
    await lose();
    assert.equal((await it.look(runId)).run.status, "dead");

    await it.accept("agent", { thread_suffix: "team" });

    assertClosed(await logged());
  });

  test("DUR-012 a requeued run asks again for the waiting calls of a dead run's sub-agents", async () => {
    const { it, runId, openWaits, logged, lose } = await waitingTeam(35);
    await lose();

    await it.sim.until(it.process.bus.ask(runAddress(tenantId, "team", "again"), "requeue", { of: runId }));
    await it.sim.advance(5_000);

    assert.deepEqual([await openWaits("again"), (await logged()).results], [3, []]);
  });

  test("DUR-009 a run with an answer in time resumes however late its process starts", async () => {
    const it = await world(atEnd, 5);
    it.says((messages) => (messages.at(-1)?.role === "user" ? { calls: [call], usage } : done));
    const runId = await it.accept("gated", { thread_suffix: "answered" });
    await it.sim.advance(5_000);
    const [wait] = await it.sim.until(waitsOfRun(it.tenant, runId));
    const decision = { decision: "approved", note: "", edited_args: null } as const;
    const deciding = it.tenant.write(decideOps(it.tenant, wait?.approval_id ?? "", decision, "bob"));
    await it.sim.until(deciding);
    it.crash();
    await it.sim.advance(dayMs);
    it.boot();

    await it.sim.advance(5_000);

    assert.equal((await it.look(runId)).run.status, "completed");
  });

  test("DUR-008 USAGE-001 usage of a step that a drain cuts off counts", async () => {
    const it = await world(atEnd, 30);
    it.says(() => ({ text: Array.from({ length: 1_000 }, () => "w ") }));
    const rows = async () => {
      const all = await it.query("SELECT tokens_output, meta_json FROM usage ORDER BY ts");
      return all.map((row) => [row.tokens_output, JSON.parse(String(row.meta_json)).estimated]);
    };
    const runId = await it.accept("capped");
    await it.sim.advance(500);
    it.drains();
    it.stops();
    await it.sim.advance(20);
    const { run } = await it.look(runId);
    const first = await rows();
    it.crash();
    it.boot();

    await it.sim.advance(10_000);

    const [[tokens] = []] = first;
    assert.ok(Number(tokens) > 50 && Number(tokens) < 200, String(tokens));
    assert.deepEqual(first, [[tokens, true]]);
    assert.deepEqual([run.spent?.output_tokens, run.spent?.tool_calls], [tokens, 0]);
    assert.ok((run.spent?.active_ms ?? 0) >= 500);
    assert.deepEqual(await rows(), [
      [tokens, true],
      [300 - Number(tokens), true],
    ]);
    const end = await it.look(runId);
    assert.match(end.durableRun.final ?? "", /run limit reached: max_output_tokens$/);
  });

  test("DUR-008 tool calls before a step that a drain cuts off are counted after it", async () => {
    const it = await world(atEnd, 32);
    it.says((messages) =>
      messages.at(-1)?.role === "tool" ? { text: Array.from({ length: 1_000 }, () => "w ") } : { calls: [call], usage },
    );
    const runId = await it.accept("agent");
    await it.sim.advance(1_000);
    const before = await it.look(runId);
    it.drains();
    it.stops();
    await it.sim.advance(20);

    const after = await it.look(runId);
    assert.deepEqual([before.run.spent?.tool_calls, after.run.spent?.tool_calls], [1, 1]);
    assert.ok(Number(after.run.spent?.output_tokens) > usage.output);
  });

  test("DUR-008 a run that a drain cuts off ends at once, with or without its usage", async () => {
    const it = await world(atEnd, 31);
    it.says(() => ({ text: Array.from({ length: 1_000 }, () => "w ") }));
    const runId = await it.accept("capped", { thread_suffix: "cut" });
    await it.sim.advance(500);
    it.refuses("usage_insert");
    it.drains();
    it.stops();
    await it.sim.advance(20);
    const { size } = it.process.deps.liveRuns;
    it.refuses(null);
    it.crash();
    it.boot();
    // Like a server at its start.
    it.process.bus.tell(threadAddress(tenantId, "cut"), "recover", {});

    await it.sim.advance(10_000);

    assert.equal(size, 0);
    assert.equal((await it.look(runId)).run.status, "completed");
  });

  test("DUR-009 a run expires after a day in the slot queue, not by its own time", async () => {
    const it = await world(atEnd, 6);
    it.drains();
    const soon = await it.accept("agent");
    it.crash();
    await it.sim.advance(hourMs);
    it.boot();
    await it.sim.advance(5_000);
    const { run } = await it.look(soon);
    it.drains();
    const late = await it.accept("agent");
    it.crash();
    await it.sim.advance(dayMs);
    it.boot();
    await it.sim.advance(5_000);

    assert.equal(run.status, "completed");
    assert.equal((await it.look(late)).run.status, "expired");
  });

  test("DUR-009 the wall clock of a run counts its work, and not its waits", async () => {
    const it = await world(atEnd, 7);
    it.says((messages) => (messages.at(-1)?.role === "user" ? { calls: [call], usage } : done));
    const runId = await it.accept("timed", { thread_suffix: "timed" });
    await it.sim.advance(60_000);
    const [wait] = await it.sim.until(waitsOfRun(it.tenant, runId));
    const decision = { decision: "approved", note: "", edited_args: null } as const;
    await it.sim.until(it.tenant.write(decideOps(it.tenant, wait?.approval_id ?? "", decision, "bob")));
    it.process.bus.tell(runAddress(tenantId, "timed", runId), "resume", { due: false });
    await it.sim.advance(5_000);

    const { run, durableRun } = await it.look(runId);
    assert.deepEqual([run.status, durableRun.final], ["completed", "Done."]);
    assert.ok((run.spent?.active_ms ?? 0) < 1_000, `${run.spent?.active_ms} ms`);
  });

  test("DUR-006 a run is on record some days after its end, with its log", async () => {
    const it = await world(atEnd, 10, { SVC_FIBER_RETENTION_DAYS: "2" });
    const alone = await it.accept("agent");
    const onThread = await it.accept("agent", { thread_suffix: "kept" });
    const laterOn = async (ms: number) => {
      await it.sim.advance(5_000);
      it.crash();
      await it.sim.advance(ms);
      it.boot();
      await it.sim.advance(5_000);
    };
    await laterOn(dayMs);
    const before = [await it.look(alone), await it.look(onThread)].map(({ run }) => run.status);
    await laterOn(dayMs);

    const store = it.tenant;
    assert.deepEqual(before, ["completed", "completed"]);
    assert.equal(await it.sim.until(durableRowById(store, alone)), undefined);
    assert.equal(await it.sim.until(durableRowById(store, onThread)), undefined);
    assert.equal(await it.sim.until(threadBySuffix(store, `fiber:${alone}`)), undefined);
    assert.equal((await it.sim.until(threadBySuffix(store, "kept")))?.next_seq, 2);
  });

  test("DUR-008 a run in the next process says so at its first model call only", async () => {
    const it = await world(atEnd, 12);
    const asked: string[][] = [];
    const asks = Promise.withResolvers<void>();
    it.says((messages) => {
      asked.push(messages.map(({ content }) => content));
      if (asked.length === 2) asks.resolve();
      return messages.at(-1)?.role === "user" ? { calls: [{ ...call, id: `sum${asked.length}` }], usage } : done;
    });
    await it.accept("gated", { thread_suffix: "nudged" });
    await it.sim.advance(5_000);
    const abort = it.process.bus.ask(
      threadAddress(tenantId, "nudged"),
      "abort",
      { reason: "client" },
      { deadlineMs: minuteMs },
    );
    await it.sim.until(abort);
    const runId = await it.accept("agent", { thread_suffix: "nudged", surface: "continue" });
    it.crash();
    it.boot();
    await it.sim.until(asks.promise);
    it.crash();
    it.boot();
    await it.sim.until(it.process.bus.ask(threadAddress(tenantId, "nudged"), "recover", {}));
    await it.sim.advance(5_000);

    const { run, durableRun } = await it.look(runId);
    assert.deepEqual([run.status, durableRun.final], ["completed", "Done."]);
    assert.deepEqual(
      asked.map((messages) => [messages.at(-1), messages.filter((content) => content === "[continue]").length]),
      [
        ["go", 0],
        ["[continue]", 1],
        ["[continue]", 1],
        ["42", 0],
      ],
    );
  });

  test("DUR-008 the manifest of runs is stored once, and deleted some time after them", async () => {
    const it = await world(atEnd, 11, { SVC_FIBER_RETENTION_DAYS: "2" });
    const [first, second] = [await it.accept("gated", { thread_suffix: "one" }), await it.accept("gated")];
    const ofStranger = { principal: { ...principal, tenant_id: "globex" } };
    const theirs = it.process.submit({ manifest: "gated", thread_suffix: null, surface: "chat", ...ofStranger });
    assert.equal((await it.sim.until(theirs.accepted)).kind, "accepted");
    const bodies = () => it.query("SELECT tenant_id, digest FROM manifest_bodies ORDER BY tenant_id");
    const { asked } = (await it.look(first)).run;
    const kept = bodies();
    await it.sim.advance(5_000);
    const stored = await it.sim.until(manifestBody(it.tenant, asked.durable?.body ?? ""));
    it.crash();
    await it.sim.advance(2 * hourMs);
    it.boot();
    await it.sim.advance(5_000);
    const whileOnRecord = bodies();
    it.crash();
    await it.sim.advance(2 * dayMs);
    it.boot();
    await it.sim.advance(5_000);
    const swept = bodies();
    const again = await it.accept("gated");

    assert.equal(await it.sim.until(durableRowById(it.tenant, second)), undefined, "no run is on record");
    assert.deepEqual(
      kept.map(({ tenant_id }) => tenant_id),
      [tenantId, "globex"],
    );
    assert.equal(new Set(kept.map(({ digest }) => digest)).size, 1);
    assert.equal(JSON.parse(stored?.body ?? "[]")[0].manifest.metadata.name, "gated");
    assert.deepEqual([whileOnRecord, swept], [kept, []]);
    assert.deepEqual(
      bodies().map(({ tenant_id }) => tenant_id),
      [tenantId],
    );
    assert.equal((await it.look(again)).run.asked.durable?.body, asked.durable?.body);
  });

  test("DUR-010 TASK-004 SVC_FIBER_POLL_SECONDS=0 leaves only the minutely check", async () => {
    const it = await world(atEnd, 8, { SVC_FIBER_POLL_SECONDS: "0" });
    await it.sim.advance(5_000);
    it.says((messages) => (messages.at(-1)?.role === "user" ? { calls: [call], usage } : done));
    const runId = await it.accept("gated", { thread_suffix: "swept" });
    await it.sim.advance(50_000);
    const queued = await it.look(runId);
    await it.sim.advance(10_000);
    const begun = await it.look(runId);
    const [wait] = await it.sim.until(waitsOfRun(it.tenant, runId));
    const decision = { decision: "approved", note: "", edited_args: null } as const;
    await it.sim.until(it.tenant.write(decideOps(it.tenant, wait?.approval_id ?? "", decision, "bob")));
    await it.sim.advance(45_000);
    const answered = await it.look(runId);
    await it.sim.advance(15_000);

    assert.equal(queued.run.status, "accepted");
    assert.equal(begun.run.status, "waiting");
    assert.equal(answered.run.status, "waiting");
    assert.equal((await it.look(runId)).run.status, "completed");
  });

  test("DUR-010 a run begins at its acceptance with a free slot, and is due otherwise", async () => {
    const it = await world(atEnd, 12, { SVC_FIBER_CONCURRENCY: "1" });
    const first = await it.accept("agent");
    const begun = await it.look(first);
    const second = await it.accept("agent", { thread_suffix: "second" });
    const queued = await it.look(second);
    await it.sim.advance(5_000);

    assert.deepEqual([begun.run.status, begun.durableRun.wake_at], ["running", null]);
    assert.ok((begun.durableRun.begun_at ?? 0) >= begun.durableRun.accepted_at);
    assert.deepEqual([queued.run.status, queued.durableRun.begun_at], ["accepted", null]);
    assert.ok(queued.durableRun.wake_at !== null);
    for (const runId of [first, second]) {
      const { run, durableRun } = await it.look(runId);
      assert.deepEqual([run.status, durableRun.final, durableRun.lost], ["completed", "Done.", 0]);
      // The earlier run has returned its slot.
      assert.equal(await it.freeSlot(), true, "who is done holds none");
    }
  });

  test("DUR-010 a refused acceptance returns its slot", async () => {
    const it = await world(atEnd, 13, { SVC_FIBER_CONCURRENCY: "1" });
    it.refuses("fiber_insert");
    const turn = it.process.submit({ manifest: "agent", thread_suffix: null, principal, surface: "chat" });
    await assert.rejects(it.sim.until(turn.accepted));
    it.refuses(null);
    const runId = await it.accept("agent");

    assert.equal((await it.look(runId)).run.status, "running");
  });

  for (const [name, how] of [
    ["an hour later, of which it is told", { afterMs: hourMs, isTold: true }],
    ["a moment later, of which nobody hears", { afterMs: 500, isTold: false }],
  ] as const)
    for (const between of ["nobody asks", "somebody asks for the conversation"])
      test(`DUR-010 an acceptance that the store carries out ${name} becomes a run; ${between} before it`, async () => {
        const it = await world(atEnd, 14, { SVC_FIBER_CONCURRENCY: "1" });
        it.answersLate({ statement: "fiber_insert", ...how });
        const turn = it.process.submit({ manifest: "agent", thread_suffix: "late", principal, surface: "chat" });
        await assert.rejects(it.sim.until(turn.accepted), { code: "storage_unavailable" });
        if (between !== "nobody asks") {
          const { bus } = it.process;
          const { run_id } = await it.sim.until(bus.ask(threadAddress(tenantId, "late"), "attach", {}));
          assert.equal(run_id, null);
        }

        await it.sim.advance(how.afterMs + 5_000);

        const { run, durableRun } = await it.look(turn.runId);
        assert.deepEqual([run.status, durableRun.final, durableRun.lost], ["completed", "Done.", 1]);
        assert.equal(it.askedAt.length, 1);
        assert.equal(await it.freeSlot(), true);
      });

  test("DUR-010 a resume that the store carries out late is repeated", async () => {
    const it = await world(atEnd, 15, { SVC_FIBER_CONCURRENCY: "1" });
    it.says((messages) => (messages.at(-1)?.role === "user" ? { calls: [call], usage } : done));
    const runId = await it.accept("gated", { thread_suffix: "asks" });
    await it.sim.advance(5_000);
    const [wait] = await it.sim.until(waitsOfRun(it.tenant, runId));
    it.answersLate({ statement: "fiber_claim", afterMs: 500, isTold: false });
    const decision = { decision: "approved", note: "", edited_args: null } as const;
    await it.sim.until(it.tenant.write(decideOps(it.tenant, wait?.approval_id ?? "", decision, "bob")));

    await it.sim.advance(30_000);

    const { run, durableRun } = await it.look(runId);
    assert.deepEqual([run.status, durableRun.final], ["completed", "Done."]);
  });

  test("DUR-010 an acceptance that times out and is never applied leaves nothing", async () => {
    const it = await world(atEnd, 16, { SVC_FIBER_CONCURRENCY: "1" });
    it.answersLate({ statement: "fiber_insert", afterMs: dayMs, isTold: false });
    const turn = it.process.submit({ manifest: "agent", thread_suffix: "never", principal, surface: "chat" });
    await assert.rejects(it.sim.until(turn.accepted), { code: "storage_unavailable" });

    await it.sim.advance(hourMs);

    assert.deepEqual(it.query("SELECT * FROM threads"), []);
    assert.equal(await it.freeSlot(), true);
    assert.deepEqual(it.askedAt, []);
  });

  test("DUR-011 the number of active runs is bounded, and tenants take turns by step", async () => {
    const it = await world(atEnd, 9, { SVC_FIBER_CONCURRENCY: "2" });
    let asked = 0;
    let most = 0;
    let theirs = 0;
    it.says((messages) => {
      asked++;
      most = Math.max(most, it.process.deps.liveRuns.size);
      if (messages.at(-1)?.content === "theirs") theirs = asked;
      const call = { id: `c${asked}`, name: "calculator", arguments: '{"expression":"6*7"}' };
      return messages.filter(({ role }) => role === "tool").length < 6 ? { calls: [call], usage } : done;
    });
    const ours = await Promise.all(Array.from({ length: 20 }, () => it.accept("agent")));
    const turn = it.process.submit({
      ...{ manifest: "agent", thread_suffix: null, surface: "chat", principal: { ...principal, tenant_id: "globex" } },
      messages: [{ role: "user", content: "theirs" }],
    });
    await it.sim.until(turn.accepted);
    const before = asked;
    await it.sim.advance(hourMs);

    assert.equal(most, 2);
    for (const runId of ours) assert.equal((await it.look(runId)).run.status, "completed");
    assert.equal((await it.look(turn.runId, "globex")).run.status, "completed");
    assert.ok(before < 100, `${before} of 140 steps were made before the other tenant came`);
    assert.ok(theirs - before <= 4, `${theirs - before} steps were made before its first`);
  });
});
