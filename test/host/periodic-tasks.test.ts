import assert from "node:assert/strict";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pino } from "pino";
import { Bus } from "../../bus/bus.ts";
import { type Env, systemEnv } from "../../bus/env.ts";
import { nodeId } from "../../bus/protocol/node-id.ts";
import { Metrics } from "../../governance/metrics.ts";
import { allDuties, type Duty } from "../../governance/settings/duties.ts";
import { loadSettings } from "../../governance/settings/settings.ts";
import { HostLease } from "../../host/host-lease.ts";
import { periodicTasks } from "../../host/periodic-tasks.ts";
import { type PeriodicTask, startTasks } from "../../host/task-runner.ts";
import { cronTicks } from "../../host/ticks.ts";
import { ArtifactStore } from "../../storage/files/artifact-store.ts";
import { DocumentFiles } from "../../storage/files/document-files.ts";
import { FileStore } from "../../storage/files/file-store.ts";
import type { Store } from "../../storage/store/store.ts";
import { storedJob, storeNow, writeJob } from "../../storage/tables/jobs.ts";
import { endRunOp, insertRunOp, runByKey, runKey } from "../../storage/tables/runs.ts";
import { eventually } from "../support/eventually.ts";
import { noVectors } from "../support/no-vectors.ts";
import { newRun } from "../support/rows.ts";
import { Sim } from "../support/sim-env.ts";
import { testStore } from "../support/stores.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const log = pino({ level: "silent" });
const everything = { duties: allDuties };

/** A task that records its starts, takes some time, and can fail. */
function noted(sim: Sim, { takesMs = 0, pauseMs = 100, fails = false, whileDraining = false } = {}) {
  const env = sim.env();
  const startedAt = sim.now;
  const began: number[] = [];
  const task: PeriodicTask = {
    name: "noted",
    of: "scheduler",
    whileDraining,
    async run() {
      began.push(sim.now - startedAt);
      await new Promise<void>((resolve) => env.timer(takesMs, resolve));
      if (fails) throw new Error("the disk is full");
      return pauseMs;
    },
  };
  return { task, began, env };
}

test("a task runs at once, then a pause after each end, and never twice at a time", async () => {
  const sim = new Sim(1);
  const { task, began, env } = noted(sim, { takesMs: 70, pauseMs: 100 });

  startTasks([task], env, log, everything);
  await sim.advance(400);

  assert.deepEqual(began, [0, 170, 340]);
});

test("held tasks start within a second of release; requests do not wait", async () => {
  for (const isStopped of [false, true]) {
    const sim = new Sim(1);
    const { task, began, env } = noted(sim, { pauseMs: 10_000 });
    let isHeld = true;
    const tasks = startTasks([task], env, log, everything, async () => isHeld);

    await sim.advance(5_500);
    const asked = tasks.run("noted", "asked");
    await sim.advance(100);
    isHeld = false;
    if (isStopped) tasks.stop();
    await sim.advance(5_000);

    assert.equal((await asked).answer, "done");
    assert.deepEqual(began, isStopped ? [5_500] : [5_500, 6_000]);
  }
});

test("a task on ticks runs at once and at each tick, and waits after a failure", async () => {
  const sim = new Sim(2);
  const { task, began, env } = noted(sim, { takesMs: 1_500, pauseMs: 60_000 });
  const failing = noted(sim, { fails: true });

  const tasks = startTasks([{ ...task, onTicks: true }], env, log, everything);
  const failed = startTasks([{ ...failing.task, onTicks: true }], failing.env, log, everything);
  await sim.advance(7_600);
  tasks.stop();
  failed.stop();
  await sim.advance(60_000);

  assert.deepEqual(began, [0, 2_000, 4_000, 6_000]);
  assert.deepEqual(failing.began, [0, 1_000, 3_000, 7_000]);
});

test("node-cron ticks until it is stopped", async () => {
  let count = 0;
  const stop = cronTicks(() => void count++);
  await eventually("two ticks", async () => count >= 2 || undefined);
  stop();
});

test("a task that returns no valid pause has failed", async () => {
  for (const pauseMs of [Number.POSITIVE_INFINITY, undefined, null, Number.NaN, -1, "100"]) {
    const sim = new Sim(2);
    const { task, began, env } = noted(sim);

    startTasks([{ ...task, run: (why) => task.run(why).then(() => pauseMs as number) }], env, log, everything);
    await sim.advance(10_000);

    assert.deepEqual(began, [0, 1_000, 3_000, 7_000], String(pauseMs));
  }
});

test("a failed task is retried after 1, 2, 4 … 60 s, and blocks no other task", async () => {
  const sim = new Sim(2);
  const failing = noted(sim, { fails: true });
  const other = noted(sim, { pauseMs: 30_000 });

  startTasks([failing.task, other.task], failing.env, log, everything);
  await sim.advance(200_000);

  assert.deepEqual(
    failing.began.map((at) => at / 1_000),
    [0, 1, 3, 7, 15, 31, 63, 123, 183],
  );
  assert.deepEqual(other.began.slice(0, 5), [0, 30_000, 60_000, 90_000, 120_000]);
});

for (const [pauseMs, pauses] of [
  [50, [50, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]],
  [1_000, [1_000, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]],
  [10_000, [10_000, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]],
  [3_600_000, [3_600_000, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000]],
] as const)
  test(`a task of each ${pauseMs} ms that fails for a while is retried soon, then on time`, async () => {
    const sim = new Sim(2);
    const began: number[] = [];
    const task: PeriodicTask = {
      name: "noted",
      of: "scheduler",
      async run() {
        began.push(sim.now);
        // Fails from the second to the seventh time, and once more.
        if ((began.length > 1 && began.length < 8) || began.length === 9) throw new Error("the disk is full");
        return pauseMs;
      },
    };

    startTasks([task], sim.env(), log, everything);
    await sim.advance(2 * pauseMs + 100_000);

    const between = began.slice(1).map((at, index) => at - (began[index] as number));
    assert.deepEqual(between.slice(0, 9), [...pauses, pauseMs, 1_000]);
  });

test("no task starts after the stop, and a running one does not start again", async () => {
  const sim = new Sim(3);
  const { task, began, env } = noted(sim, { takesMs: 50, pauseMs: 10 });
  const tasks = startTasks([task], env, log, everything);
  await sim.advance(20);

  tasks.stop();
  await sim.advance(1_000);

  assert.deepEqual(began, [0]);
});

test("TASK-003 a requested task runs at once, after a running one, once for all requests", async () => {
  const sim = new Sim(5);
  const { task, began, env } = noted(sim, { takesMs: 70, pauseMs: 1_000 });
  const tasks = startTasks([task], env, log, everything);
  const told: unknown[] = [];
  const ask = (name: string) => void tasks.run(name, "asked").then(({ answer }) => told.push([answer, sim.now]));
  const startedAt = sim.now;
  await sim.advance(30);

  ask("noted");
  ask("noted");
  ask("nothing");
  await sim.advance(2_000);
  tasks.stop();
  ask("noted");
  await sim.advance(10);

  assert.deepEqual(began, [0, 70, 1_070]);
  assert.deepEqual(told, [
    ["unknown", startedAt + 30],
    ["done", startedAt + 140],
    ["done", startedAt + 140],
    ["stopped", startedAt + 2_030],
  ]);
});

test("a failed task reports its failure to the request", async () => {
  const sim = new Sim(6);
  const { task, env } = noted(sim, { fails: true });
  const tasks = startTasks([task], env, log, everything);
  await sim.advance(10);

  const asked = tasks.run("noted", "asked");
  const refused = assert.rejects(asked, /the disk is full/);
  await sim.advance(10);

  await refused;
});

test("a request during a due task's wait counts as a requested run", async () => {
  const sim = new Sim(8);
  const env = sim.env();
  const why: string[] = [];
  const task: PeriodicTask = {
    name: "noted",
    of: "scheduler",
    async run(reason) {
      why.push(reason);
      await new Promise<void>((resolve) => env.timer(70, resolve));
      return 10;
    },
  };
  const tasks = startTasks([task], env, log, everything);
  await sim.advance(75);

  // The task runs from now on, and its timer fires during that run and waits.
  void tasks.run("noted", "asked");
  await sim.advance(20);
  void tasks.run("noted", "asked");
  await sim.advance(60);

  assert.deepEqual(why, ["due", "asked", "asked"]);
});

for (const [duties, begun, asked] of [
  [["api"], ["own"], ["done", "not_held", "not_held"]],
  [["worker"], ["own", "work"], ["done", "done", "done"]],
  [["scheduler"], ["own"], ["done", "not_held", "not_held"]],
  [
    ["worker", "scheduler"],
    ["own", "work", "planned"],
    ["done", "done", "done"],
  ],
] as [Duty[], string[], string[]][])
  test(`a process for ${duties} starts ${begun}`, async () => {
    const sim = new Sim(7);
    const done: string[] = [];
    const named = (name: string, of: PeriodicTask["of"]): PeriodicTask => ({
      ...{ name, of },
      async run(why) {
        done.push(why === "due" ? name : `${name} ${why}`);
        return 3_600_000;
      },
    });
    const made = [named("own", "process"), named("work", "worker"), named("planned", "scheduler")];

    const tasks = startTasks(made, sim.env(), log, { duties });
    await sim.advance(10);
    const began = [...done];
    const answers = await Promise.all(made.map(async ({ name }) => (await tasks.run(name, "asked")).answer));

    assert.deepEqual(began, begun);
    assert.deepEqual(answers, asked);
    assert.deepEqual(
      done.slice(began.length),
      made.flatMap(({ name }, at) => (asked[at] === "done" ? [`${name} asked`] : [])),
    );
  });

test("tasks that are marked for draining continue during the drain", async () => {
  const sim = new Sim(4);
  const { task, began, env } = noted(sim, { pauseMs: 100, whileDraining: true });
  const tasks = startTasks([task], env, log, everything);

  tasks.stop();
  await sim.advance(250);

  assert.deepEqual(began, [0, 100, 200]);
});

/** The built-in tasks of one process. */
function builtIn(store: Store, env: Env, settings: Readonly<Record<string, string>>): PeriodicTask[] {
  const lease = new HostLease({
    env,
    store: store.system,
    host: "here",
    mode: "alone",
    card: null,
    locked: true,
    patienceMs: 0,
    renewed: false,
    log,
    onGone: async () => {},
    onLost: () => {},
  });
  const node = nodeId("here", 0);
  const bus = new Bus({ env, node, incarnation: 0, actorNodes: [node], deliver: () => {} });
  return periodicTasks({
    ...{
      store,
      textVectors: noVectors(env, store),
      skillImports: null as never,
      metrics: new Metrics(),
      lease,
      env,
      bus,
      log,
      redis: null,
      host: "here",
      startedAt: env.now(),
      files: new FileStore(null, env, 0),
      artifacts: new ArtifactStore(null, env),
      documentFiles: new DocumentFiles(null, env),
    },
    settings: loadSettings(settings),
    flush: async () => true,
  });
}

test("a starting process completes interrupted deletions, and later only old ones", async (t) => {
  const atEnd = cleanup(t);
  const { store } = await testStore("sqlite", atEnd);
  const root = tempDir(atEnd);
  const threads = join(root, ".svc-scopes", "acme", "threads");
  const left = (name: string) => mkdirSync(join(threads, name, "dir"), { recursive: true });
  left("a.erased");
  let ms = 60_000;
  const env: Env = { ...systemEnv(), now: () => Date.now() + ms };
  const task = builtIn(store, env, { SVC_WORKSPACE_ROOT: root }).find(({ name }) => name === "workspace_drafts");
  const atEach: string[][] = [];
  for (const [name, later] of [
    ["a.erased", 60_000],
    ["b.erased", 60_000],
    ["b", 3_660_000],
  ] as const) {
    left(name);
    ms = later;
    await task?.run("due");
    atEach.push(readdirSync(threads));
  }

  assert.deepEqual(atEach, [[], ["b.erased"], ["b"]]);
});

test("times that a clock ahead has stored are corrected each minute", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const tenant = store.tenant("acme");
  const env = new Sim(6).env();
  const now = await storeNow(store.system);
  const owner = { sub: "wanda", scopes: [], scheme: "none", issuer: "" };
  const job = { name: "j", schedule: "0 * * * *", manifest_id: "m", payload: {}, enabled: 1, owner };
  await writeJob(tenant, undefined, job, { now, next_run_at: now + 7_200_000, limit: 0, ops: [] });

  const task = builtIn(store, env, {}).find(({ name }) => name === "stored_times");
  const pauseMs = await task?.run("due");

  const next = (await storedJob(tenant, "j"))?.next_run_at ?? 0;
  assert.ok(next > now && next <= now + 3_600_000, String(next - now));
  assert.equal(pauseMs, 60_000);
});

test("rows of ended runs are deleted after some days, in any number; never with 0", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const tenant = store.tenant("acme");
  const env = new Sim(5).env();
  const dayMs = 86_400_000;
  const end = { status: "completed", last_seq: 0, stop_reason: "end_turn", error: null, usage: null } as const;
  const endedAgo = [...Array.from({ length: 1_100 }, () => 7 * dayMs), 7 * dayMs - 1, null];
  await tenant.write(
    endedAgo.flatMap((ago, epoch) => [
      insertRunOp(tenant, newRun(`r${epoch}`, { started_at: 1 }), { thread_key: 1, epoch, first_seq: 0 }),
      ...(ago === null
        ? []
        : [endRunOp(tenant, { run_key: runKey(1, epoch), epoch }, { ...end, ended_at: env.now() - ago })]),
    ]),
  );
  const sweep = (days: number) =>
    builtIn(store, env, { SVC_FIBER_RETENTION_DAYS: String(days) })
      .find(({ name }) => name === "old_runs")
      ?.run("due");
  const left = async () => {
    const runs = await Promise.all(endedAgo.map((_, epoch) => runByKey(tenant, runKey(1, epoch))));
    return runs.flatMap((run) => run?.run_id ?? []);
  };

  await sweep(0);
  const kept = await left();
  await sweep(7);

  assert.equal(kept.length, 1_102);
  assert.deepEqual(await left(), ["r1100", "r1101"]);
});
