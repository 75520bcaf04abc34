// Calls that ended with their process, and may not be repeated: a person decides about their outcome (decision 91:
// outcome unknown). Time is simulated.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { pino } from "pino";
import { defineTool } from "../../../actors/tools/tool.ts";
import { runAddress, threadAddress } from "../../../bus/address.ts";
import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { Metrics } from "../../../governance/metrics.ts";
import { periodicTasks } from "../../../host/periodic-tasks.ts";
import { startTasks } from "../../../host/task-runner.ts";
import { ArtifactStore } from "../../../storage/files/artifact-store.ts";
import { DocumentFiles } from "../../../storage/files/document-files.ts";
import { FileStore } from "../../../storage/files/file-store.ts";
import { type ApprovalRow, approvalById, type Decision, decideOps } from "../../../storage/tables/approvals.ts";
import { type DurableRunRow, durableRowById } from "../../../storage/tables/durable-rows.ts";
import { readEvents } from "../../../storage/tables/events.ts";
import { type RunRow, runByKey } from "../../../storage/tables/runs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { type WaitRow, waitsOfRun } from "../../../storage/tables/waits.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { noVectors } from "../../support/no-vectors.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { type Cleanup, cleanup } from "../../support/temp.ts";

const minuteMs = 60_000;
const dayMs = 86_400_000;
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
const done: ScriptedReply = { text: ["Done."], usage };
const tasks = ["fiber_poll", "fiber_scheduler", "due_waits", "old_runs"];
const principal = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };
const pays = (...ids: string[]): ScriptedReply => ({
  calls: ids.map((id) => ({ id, name: "pay", arguments: JSON.stringify({ to: "bob" }) })),
  usage,
});
const approved: Decision = { decision: "approved", note: "", edited_args: null };
const denied: Decision = { decision: "denied", note: "ask bob", edited_args: null };
const unknown = "[tool error/interrupted] outcome unknown: it may have run (once)";

const keyOf = (runId: string): string => createHash("sha256").update(`${runId}.a`).digest("base64url");

type Asked = { readonly wait: WaitRow; readonly row: ApprovalRow };
const noteOf = (row: ApprovalRow | undefined): unknown => (row?.decision?.value as Decision | undefined)?.note;

/** Successive processes, with a tool that pays, once, and never returns while it is blocked. */
async function world(atEnd: Cleanup, seed: number) {
  const sim = new Sim(seed);
  const disk = await SimDisk.open(atEnd);
  const execution = { mode: "durable", resume_token_ttl_seconds: 30 };
  const gate = { id: "gate", tools: ["pay"], ttl_seconds: 600 };
  const settings = processSettings(
    atEnd,
    {
      agent: { tools: ["pay"], execution },
      wide: { tools: ["pay", "look"], execution: { ...execution, tools: "parallel" } },
      gated: { tools: ["pay"], execution, approvals: [gate] },
      strict: { tools: ["pay"], execution, approvals: [{ ...gate, require_other: true }] },
      lead: { delegation: { agents: [{ name: "worker" }] }, execution },
      worker: { tools: ["pay", "look"] },
      asker: { tools: ["pay"], approvals: [gate] },
      over: { delegation: { agents: [{ name: "asker" }] }, execution },
    },
    { SVC_AUDIT_FLUSH_SECONDS: "3600", SVC_FIBER_CONCURRENCY: "1" },
  );
  let answer = (messages: readonly ShownMessage[]): ScriptedReply =>
    messages.at(-1)?.role === "user" ? pays("a") : done;
  let boots = 0;
  let isHeld = true;
  const suffixes = new Set<string>();
  const made: string[] = [];
  const keys: string[] = [];
  const shown: ShownMessage[][] = [];

  function boot() {
    const env = sim.env();
    const store = disk.store(sim, env);
    const model = new ScriptedModel(env, (messages) => {
      shown.push([...messages]);
      return answer(messages);
    });
    const tool = (name: string, effect: "read" | "once") =>
      defineTool({
        name,
        description: "Leaves a trace.",
        parameters: Type.Object({ to: Type.String() }, { additionalProperties: false }),
        effect,
        risk: "spends",
        timeoutMs: 3_600_000,
        execute(_args, { toolCallId, key }) {
          made.push(toolCallId);
          keys.push(key);
          return isHeld && effect === "once" ? new Promise<never>(() => {}) : { text: `${name} ${toolCallId}` };
        },
      });
    const bootId = `host-${boots++}`;
    const tools = [tool("pay", "once"), tool("look", "read")];
    const process = new ActorProcess({ env, store, settings, model, tools, bootId });
    const files = new FileStore(null, env, 0);
    const periodic = periodicTasks({
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
    startTasks(
      periodic.filter(({ name }) => tasks.includes(name)),
      env,
      pino({ level: "silent" }),
      settings,
    );
    return { env, process, tenant: store.tenant(tenantId) };
  }
  let now = boot();
  return {
    sim,
    /** The ids of the tool's calls. */
    made,
    /** The keys of the tool's calls. */
    keys,
    /** The prompts of the model, one per call. */
    shown,
    says(to: typeof answer) {
      answer = to;
    },
    release() {
      isHeld = false;
    },
    hold() {
      isHeld = true;
    },
    get tenant() {
      return now.tenant;
    },
    get process() {
      return now.process;
    },
    /** The process ends without warning, and the next one has had a few seconds. */
    async crash(goneMs = 4_000): Promise<void> {
      now.env.end();
      await sim.advance(goneMs);
      now = boot();
      const left =
        "SELECT t.suffix FROM runs r JOIN threads t ON t.thread_key = r.thread_key WHERE r.status = 'running'";
      for (const { suffix } of disk.query(left)) suffixes.add(suffix as string);
      for (const suffix of suffixes)
        await sim.until(now.process.bus.ask(threadAddress(tenantId, suffix), "recover", {}));
      await sim.advance(8_000);
    },
    async accept(manifest: string, suffix: string, words = "go"): Promise<string> {
      const messages = [{ role: "user", content: words }];
      const turn = now.process.submit({ manifest, thread_suffix: suffix, principal, surface: "chat", messages });
      assert.equal((await sim.until(turn.accepted)).kind, "accepted");
      suffixes.add(suffix);
      await sim.advance(2_000);
      return turn.runId;
    },
    async look(runId: string): Promise<{ durableRun: DurableRunRow; run: RunRow }> {
      const durableRun = (await sim.until(durableRowById(now.tenant, runId))) as DurableRunRow;
      return { durableRun, run: (await sim.until(runByKey(now.tenant, durableRun.run_key))) as RunRow };
    },
    query(sql: string) {
      return disk.query(sql);
    },
    async asked(runId: string): Promise<Asked[]> {
      const waits = (await sim.until(waitsOfRun(now.tenant, runId))).filter(({ state }) => state === "open");
      const rows = waits.map((wait) => sim.until(approvalById(now.tenant, wait.approval_id ?? "")));
      return (await Promise.all(rows)).map((row, at) => ({ wait: waits[at] as WaitRow, row: row as ApprovalRow }));
    },
    async decide({ row, wait }: Asked, decision: Decision, tell = true): Promise<void> {
      await sim.until(now.tenant.write(decideOps(now.tenant, row.id, decision, "bob")));
      if (!tell) return;
      now.process.bus.tell(runAddress(tenantId, wait.suffix, wait.run_id), "resume", { due: false });
      await sim.advance(2_000);
    },
    async results(suffix: string): Promise<string[]> {
      const head = await sim.until(threadBySuffix(now.tenant, suffix));
      const events = head ? await sim.until(readEvents(now.tenant, head.thread_key, 0, 1_000)) : [];
      return events.filter(({ kind }) => kind === "tool_result").map(({ content }) => content);
    },
  };
}

describe("a call with an unknown outcome", () => {
  const atEnd = cleanup();

  test("DUR-008 waits seven days for a person, without a slot, then informs the model", async () => {
    const it = await world(atEnd, 1);
    const runId = await it.accept("agent", "left");
    await it.crash();
    const at = it.sim.now;

    const { run, durableRun } = await it.look(runId);
    const [asked, ...others] = await it.asked(runId);
    it.release();
    it.says(() => done);
    const beside = await it.look(await it.accept("agent", "beside"));
    const still = await it.look(runId);
    await it.crash(7 * dayMs - minuteMs);
    const shortly = await it.look(runId);
    await it.sim.advance(minuteMs);
    const end = await it.look(runId);
    const row = await it.sim.until(approvalById(it.tenant, asked?.row.id ?? ""));

    assert.deepEqual([run.status, others.length, it.made], ["waiting", 0, ["a"]]);
    const { rule_id, tool_name, tool_call_id, status, evidence, one_shot, args, not_by } = (asked as Asked).row;
    assert.deepEqual(
      [rule_id, tool_name, tool_call_id, status, one_shot, args, not_by],
      ["outcome-unknown", "pay", "a", "pending", 1, '{"to":"bob"}', ""],
    );
    assert.deepEqual([evidence.effect, evidence.risk, evidence.outcome], ["once", "spends", "unknown"]);
    const left = (asked?.row.deadline ?? 0) - at;
    assert.ok(left > 7 * dayMs - minuteMs && left <= 7 * dayMs, `${left} ms`);
    assert.equal(asked?.wait.deadline, asked?.row.deadline);
    assert.deepEqual(asked?.wait.may_answer.scopes, ["approvals:write"]);
    assert.equal(durableRun.expires_at, (asked?.row.deadline ?? 0) + minuteMs);
    assert.deepEqual([beside.run.status, still.run.status], ["completed", "waiting"], "the one slot is free");
    assert.equal(shortly.run.status, "waiting");
    assert.deepEqual([end.run.status, end.durableRun.final], ["completed", "Done."]);
    assert.deepEqual(await it.results("left"), [`${unknown}: timeout`]);
    assert.deepEqual([row?.status, noteOf(row)], ["expired", "timeout"]);
    assert.equal(it.made.length, 1);
  });

  test("DUR-008 approved, it is repeated once with its key; a death during it asks again", async () => {
    const it = await world(atEnd, 2);
    const runId = await it.accept("agent", "again");
    await it.crash();
    const [first] = await it.asked(runId);
    await it.decide(first as Asked, approved, false);
    await it.crash();
    const inCall = await it.look(runId);
    const openInCall = await it.asked(runId);
    await it.crash();
    const [second] = await it.asked(runId);
    it.release();
    await it.decide(second as Asked, approved);
    const { run, durableRun } = await it.look(runId);

    assert.deepEqual([inCall.run.status, openInCall.length], ["running", 0], "an answer is not asked for twice");
    assert.notEqual(second?.row.id, first?.row.id);
    assert.deepEqual(it.made, ["a", "a", "a"]);
    const other = await it.accept("agent", "other");
    assert.deepEqual([(await it.look(other)).run.status, it.made.at(-1)], ["completed", "a"]);
    assert.deepEqual(
      it.keys,
      [keyOf(runId), keyOf(runId), keyOf(runId), keyOf(other)],
      "one key for each call of a run",
    );
    assert.match(keyOf(runId), /^[\w-]{43}$/);
    assert.deepEqual([run.status, durableRun.final, run.spent?.tool_calls], ["completed", "Done.", 1]);
    assert.deepEqual(await it.results("again"), ["pay a"]);
    for (const { row } of [first, second] as Asked[]) {
      const after = await it.sim.until(approvalById(it.tenant, row.id));
      assert.deepEqual([after?.status, after?.claimed_by], ["approved", `${runId}.a`]);
      assert.notEqual(after?.consumed_at, null);
    }
  });

  test("DUR-008 denied, the model reads the note or the result that a person supplies", async () => {
    const it = await world(atEnd, 3);
    for (const [suffix, decision, text] of [
      ["noted", denied, `${unknown}: ask bob`],
      ["mute", { ...denied, note: "" }, unknown],
      ["told", { ...denied, result: "paid by hand" }, "paid by hand"],
      ["empty", { ...denied, result: "" }, ""],
    ] as const) {
      const runId = await it.accept("agent", suffix);
      await it.crash();
      const [asked] = await it.asked(runId);
      const made = it.made.length;
      await it.decide(asked as Asked, decision);

      assert.equal((await it.look(runId)).run.status, "completed");
      assert.deepEqual(await it.results(suffix), [text]);
      assert.equal(it.shown.at(-1)?.at(-1)?.content, text);
      assert.equal(it.made.length, made, "nothing is made again");
    }
  });

  test("DUR-008 each of several parallel calls is asked about, if not repeatable", async () => {
    const it = await world(atEnd, 4);
    const look = { id: "c", name: "look", arguments: JSON.stringify({ to: "bob" }) };
    const { calls = [] } = pays("a", "b");
    it.says((messages) => (messages.at(-1)?.role === "user" ? { calls: [...calls, look], usage } : done));
    const runId = await it.accept("wide", "wide");
    await it.crash();

    const asked = await it.asked(runId);
    it.release();
    await it.decide(asked.find(({ row }) => row.tool_call_id === "b") as Asked, approved);
    const between = await it.look(runId);
    const left = await it.asked(runId);
    await it.decide(asked.find(({ row }) => row.tool_call_id === "a") as Asked, denied);
    const { run } = await it.look(runId);

    assert.deepEqual(asked.map(({ row }) => row.tool_call_id).toSorted(), ["a", "b"]);
    assert.equal(new Set(asked.map(({ row }) => row.id)).size, 2, "equal calls do not share it");
    assert.deepEqual([between.run.status, left.map(({ row }) => row.tool_call_id)], ["waiting", ["a"]]);
    assert.deepEqual([run.status, run.spent?.tool_calls], ["completed", 3]);
    assert.deepEqual((await it.results("wide")).toSorted(), [`${unknown}: ask bob`, "look c", "pay b"]);
    assert.deepEqual(it.made.toSorted(), ["a", "b", "b", "c"]);
  });

  test("DUR-008 an open decision is no grant: an equal gated call asks for approval", async () => {
    const it = await world(atEnd, 5);
    const first = await it.accept("gated", "first");
    const [gate] = await it.asked(first);
    await it.decide(gate as Asked, approved);
    await it.crash();
    const [asked] = await it.asked(first);
    // Past the grant that the gate has left.
    await it.sim.advance(11 * minuteMs);
    const second = await it.accept("gated", "second");
    const [beside] = await it.asked(second);
    it.release();
    await it.decide(asked as Asked, approved);
    await it.decide(beside as Asked, denied);
    const third = await it.accept("gated", "third");
    const [later] = await it.asked(third);

    assert.deepEqual(
      [gate, asked, beside, later].map((one) => one?.row.rule_id),
      [...["gate", "outcome-unknown", "gate", "gate"]],
    );
    assert.equal((await it.look(first)).run.status, "completed");
    assert.deepEqual(it.made, ["a", "a"], "the gate is not asked again for the call that it let pass");
  });

  test("DUR-008 a principal that may not admit a call may not repeat it", async () => {
    const it = await world(atEnd, 6);
    const runId = await it.accept("strict", "strict");
    const [gate] = await it.asked(runId);
    await it.decide(gate as Asked, approved);
    await it.crash();
    const [asked] = await it.asked(runId);

    assert.equal(asked?.row.not_by, '["none","","alice"]');
    assert.equal(asked?.wait.may_answer.not_principal, asked?.row.not_by);
  });

  test("DUR-008 the first of two decisions wins and is final", async () => {
    const it = await world(atEnd, 7);
    const runId = await it.accept("agent", "both");
    await it.crash();
    const [asked] = await it.asked(runId);
    it.release();
    const write = (decision: Decision, by: string) =>
      it.tenant.write(decideOps(it.tenant, asked?.row.id ?? "", decision, by)).then(
        () => "decided",
        (error) => (error instanceof SvcError ? error.code : error),
      );

    const said = await it.sim.until(Promise.all([write(denied, "bob"), write(approved, "carol")]));
    await it.sim.advance(30_000);

    assert.deepEqual(said.toSorted(), ["conflict", "decided"]);
    const row = await it.sim.until(approvalById(it.tenant, asked?.row.id ?? ""));
    assert.equal(it.made.length, row?.status === "approved" ? 2 : 1);
    assert.equal((await it.look(runId)).run.status, "completed");
  });

  test("DUR-008 a stopped or steered run reports the outcome as unknown", async () => {
    const it = await world(atEnd, 8);
    const stopped = await it.accept("agent", "stopped");
    await it.crash();
    const [asked] = await it.asked(stopped);
    const thread = threadAddress(tenantId, "stopped");
    await it.sim.until(it.process.bus.ask(thread, "abort", { reason: "client" }, { deadlineMs: minuteMs }));
    const row = await it.sim.until(approvalById(it.tenant, asked?.row.id ?? ""));
    const told = await it.accept("agent", "steered");
    await it.crash();
    it.says(() => done);
    const steer = { text: "Never mind.", kind: "steer", principal } as const;
    await it.sim.until(it.process.bus.ask(threadAddress(tenantId, "steered"), "steer", steer));
    await it.sim.advance(10_000);

    const end = await it.look(stopped);
    assert.deepEqual([end.run.status, end.durableRun.error], ["failed", "aborted"]);
    assert.deepEqual(await it.results("stopped"), [unknown]);
    assert.deepEqual([row?.status, noteOf(row)], ["denied", "aborted"]);
    assert.equal((await it.look(told)).run.status, "completed");
    assert.deepEqual(await it.results("steered"), [`${unknown}: superseded`]);
  });

  for (const [decision, made] of [
    [approved, 2],
    [denied, 1],
  ] as const)
    test(`DUR-008 an interrupted task resumes, and a person decides its call: ${decision.decision}`, async () => {
      const it = await world(atEnd, 9);
      const hands = { calls: [{ id: "t", name: "task", arguments: '{"agent":"worker","prompt":"Pay."}' }], usage };
      const look = { id: "l", name: "look", arguments: '{"to":"bob"}' };
      it.says((messages) => {
        if (messages.find(({ role }) => role === "user")?.content !== "Pay.")
          return messages.at(-1)?.role === "user" ? hands : done;
        return (
          [{ calls: [look], usage }, pays("a"), done][messages.filter(({ role }) => role === "tool").length] ?? done
        );
      });
      const runId = await it.accept("lead", "lead");
      await it.crash();
      const [task] = it.query(`SELECT run_id, suffix FROM fibers WHERE run_id <> '${runId}'`);
      const [asked, ...others] = await it.asked(task?.run_id as string);
      const above = [(await it.look(runId)).run.status, await it.sim.until(waitsOfRun(it.tenant, runId))] as const;
      it.release();
      await it.decide(asked as Asked, decision);
      await it.sim.advance(10_000);
      const { run } = await it.look(runId);

      assert.deepEqual([asked?.row.tool_name, asked?.row.tool_call_id, others.length], ["pay", "a", 0]);
      assert.deepEqual(
        [above[0], above[1].map(({ kind }) => kind)],
        ["waiting", ["task"]],
        "nobody is asked of the task",
      );
      assert.deepEqual([run.status, await it.results("lead")], ["completed", ["Done."]]);
      assert.equal(it.made.filter((id) => id === "a").length, made);
      assert.equal(it.made.filter((id) => id === "l").length, 1, "a finished step is not made again");
      assert.equal(it.shown.length, 5, "each model call is made once");
      const ofTask = (await it.look(task?.run_id as string)).run;
      assert.deepEqual([run.spent?.tool_calls, ofTask.spent?.tool_calls], [1, 2], "calls count once");
      assert.equal(ofTask.status, "completed");
    });

  test("DUR-008 a waiting task, and one that dies repeatedly, ends with its parent", async () => {
    const it = await world(atEnd, 12);
    const hands = { calls: [{ id: "t", name: "task", arguments: '{"agent":"asker","prompt":"Pay."}' }], usage };
    it.says((messages) => {
      if (messages.at(-1)?.role !== "user") return done;
      return messages.at(-1)?.content === "Pay." ? pays("a") : hands;
    });
    it.release();
    const runId = await it.accept("over", "over");
    await it.crash();
    await it.crash(minuteMs);
    const [task] = it.query(`SELECT run_id FROM fibers WHERE run_id <> '${runId}'`);
    const [asked] = await it.asked(task?.run_id as string);
    await it.decide(asked as Asked, approved, false);
    await it.crash();
    await it.sim.advance(30_000);
    const { run, durableRun } = await it.look(runId);

    assert.equal(asked?.row.rule_id, "gate");
    assert.deepEqual([run.status, durableRun.final, it.made], ["completed", "Done.", ["a"]]);
    assert.equal(it.shown.length, 4);
  });

  test("DUR-008 a suspended task ends when its suspended parent run is stopped", async () => {
    const it = await world(atEnd, 13);
    const hands = { calls: [{ id: "t", name: "task", arguments: '{"agent":"worker","prompt":"Pay."}' }], usage };
    it.says((messages) => {
      if (messages.at(-1)?.role !== "user") return done;
      return messages.at(-1)?.content === "Pay." ? pays("a") : hands;
    });
    const runId = await it.accept("lead", "lead");
    await it.crash();
    const [task] = it.query(`SELECT run_id FROM fibers WHERE run_id <> '${runId}'`);
    const stop = it.process.bus.ask(
      threadAddress(tenantId, "lead"),
      "abort",
      { reason: "client" },
      { deadlineMs: minuteMs },
    );
    await it.sim.until(stop);
    await it.sim.advance(10_000);

    const ends = it.query(`SELECT status FROM runs WHERE run_id IN ('${runId}', '${task?.run_id}')`);
    assert.deepEqual(
      ends.map(({ status }) => status),
      ["failed", "failed"],
    );
    assert.equal(it.query("SELECT 1 FROM waits WHERE state = 'open'").length, 0);
    assert.deepEqual(it.made, ["a"]);
  });

  test("DUR-009 a run with a waiting task outlasts the task's deadline, then both end", async () => {
    const it = await world(atEnd, 10);
    const hands = { calls: [{ id: "t", name: "task", arguments: '{"agent":"asker","prompt":"Pay."}' }], usage };
    it.says((messages) => {
      if (messages.at(-1)?.role !== "user") return done;
      return messages.at(-1)?.content === "Pay." ? pays("a") : hands;
    });
    it.release();
    const runId = await it.accept("over", "over");
    // Longer than the thirty seconds that the parent may wait.
    await it.sim.advance(5 * minuteMs);
    const waiting = await it.look(runId);
    const [task] = await it.sim.until(waitsOfRun(it.tenant, runId));
    const [taskRun] = it.query("SELECT run_id FROM waits WHERE kind = 'approval'");
    const [asked] = await it.asked(taskRun?.run_id as string);
    await it.decide(asked as Asked, approved);
    await it.sim.advance(30_000);
    const { run, durableRun } = await it.look(runId);

    assert.deepEqual([waiting.run.status, task?.kind], ["waiting", "task"]);
    assert.deepEqual([run.status, durableRun.final, it.made], ["completed", "Done.", ["a"]]);
  });

  test("DUR-011 a suspended task waits for a slot like any durable run", async () => {
    const it = await world(atEnd, 11);
    const hands = { calls: [{ id: "t", name: "task", arguments: '{"agent":"asker","prompt":"Pay."}' }], usage };
    it.says((messages) => {
      if (messages.at(-1)?.role !== "user") return done;
      if (messages.at(-1)?.content === "Pay.") return pays("a");
      return messages.at(-1)?.content === "go" ? hands : pays("b");
    });
    const runId = await it.accept("over", "over");
    const [taskRun] = it.query("SELECT run_id FROM waits WHERE kind = 'approval'");
    const [asked] = await it.asked(taskRun?.run_id as string);
    const occupant = await it.accept("agent", "occupant", "Pay too.");
    const task = () => it.query(`SELECT status FROM runs WHERE run_id = '${taskRun?.run_id}'`)[0]?.status;
    it.release();
    await it.decide(asked as Asked, approved);
    await it.sim.advance(5_000);
    const full = await it.look(runId);
    const [ofTask, beside] = [task(), await it.look(occupant)];
    const stop = it.process.bus.ask(threadAddress(tenantId, "occupant"), "abort", { reason: "client" });
    await it.sim.until(stop);
    await it.sim.advance(5_000);
    const { run, durableRun } = await it.look(runId);

    assert.deepEqual([ofTask, beside.run.status, full.run.status], ["waiting", "running", "waiting"]);
    assert.deepEqual([run.status, durableRun.final, await it.results("over")], ["completed", "Done.", ["Done."]]);
    assert.equal(it.shown.length, 5, "each model call is made once");
  });
});
