// Random graphs with failures, cancels and kills: a run ends as a model says that runs the graph in memory. Planted bugs are found.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { unitKey } from "../../../actors/workflow/draft.ts";
import { lookAtWorkflows } from "../../../actors/workflow/due-workflows.ts";
import { newStep } from "../../../actors/workflow/step-state.ts";
import type { WriteOp } from "../../../storage/store/store.ts";
import {
  advanceRunOps,
  beginWorkflowRunOps,
  putOffRunOps,
  stepsOfRun,
  type WorkflowRunRow,
  type WorkflowStepRow,
  workflowRunsPage,
} from "../../../storage/tables/workflow-runs.ts";
import { runs } from "../../support/effort.ts";
import { gateDialects, type TestStore, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";
import { type Document, type Faults, type Script, SimulatedRun, textOf } from "./simulated-run.ts";

/** A source of numbers that repeats for a seed. */
function random(seed: number): () => number {
  let state = seed * 2_654_435_761 + 1;
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9) | 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

interface Case {
  readonly document: Document;
  readonly scripts: ReadonlyMap<string, Script>;
  readonly kills: ReadonlyMap<number, "before" | "after">;
  readonly cancelAt: number | null;
  readonly missingUntil: number;
}

/** A stopped run ends this long after its deadline at the latest. */
const stopMs = 6_000;

/** Makes a random graph. `failsWhole` allows steps that fail the run. */
function caseOf(seed: number): Case {
  const next = random(seed);
  const int = (max: number) => Math.floor(next() * max);
  const chance = (share: number) => next() < share;
  const scripts = new Map<string, Script>();
  const steps: Record<string, unknown>[] = [];
  const failsWhole = chance(0.3);
  const scriptOf = (): Script => ({
    tries: Array.from({ length: 1 + int(3) }, () => ({ ok: chance(0.7), ms: 1 + int(3_000), mayRetry: chance(0.8) })),
  });
  const count = 2 + int(9);
  for (let at = 0; at < count; at++) {
    const id = `s${at}`;
    const needs = steps.map(({ id }) => id as string).filter(() => chance(0.35));
    const from = needs[int(needs.length || 1)];
    const ofFrom = steps.find((step) => step.id === from);
    const port = ofFrom === undefined ? null : portOf(ofFrom.kind as string);
    const hole = port === null ? "" : `{{steps.${from}.${port}}}`;
    const more = {
      id,
      needs,
      ...(port !== null &&
        chance(0.3) && { when: chance(0.5) ? `steps.${from}.${port} exists` : `not steps.${from}.${port} exists` }),
      retry: { max: int(3), backoff_seconds: 1 },
      on_error: failsWhole && chance(0.3) ? "fail" : "continue",
    };
    const kind = int(10);
    if (kind < 5) {
      steps.push({ ...more, kind: "work", config: { prompt: `p${hole}` } });
      scripts.set(id, scriptOf());
    } else if (kind < 7) steps.push({ ...more, kind: "template", config: { text: `t${hole}` } });
    else if (kind < 8 && needs.length > 0) {
      const values = needs.map(
        (need) => `$steps.${need}.${portOf(String(steps.find((step) => step.id === need)?.kind))}`,
      );
      steps.push({ ...more, kind: "merge", config: { values } });
    } else {
      const length = int(9);
      const items = Array.from({ length }, (_, item) => item);
      for (const item of items) scripts.set(`${id}:${item}`, scriptOf());
      const step = {
        kind: "work",
        config: { prompt: "{{item}}" },
        retry: { max: 1, backoff_seconds: 1 },
        on_error: "continue",
      };
      steps.push({ ...more, kind: "map", config: { items, max_parallel: 1 + int(3), step } });
    }
  }
  const outputs = Object.fromEntries(steps.map(({ id, kind }) => [id, `$steps.${id}.${portOf(kind as string)}`]));
  const kills = new Map(Array.from({ length: int(4) }, () => [1 + int(12), chance(0.5) ? "before" : "after"] as const));
  const cancelAt = chance(0.15) ? 1_000_000 + int(4_000) : null;
  const limits = chance(0.15) ? { limits: { max_wall_clock_seconds: 1 + int(4) } } : {};
  const missingUntil = chance(0.1) ? 1_000_000 + int(60_000) : 0;
  return { document: { steps, outputs, ...limits }, scripts, kills, cancelAt, missingUntil };
}

function portOf(kind: string): string {
  return { map: "results", merge: "values" }[kind] ?? "text";
}

interface Expected {
  readonly status: string;
  readonly value: unknown;
  /** Tries of the step that begin. */
  readonly tries: number;
}

/** Runs the graph in memory, without time: what each step ends as, if nothing stops the run. */
function expected({ document, scripts }: Case): Map<string, Expected> {
  const ends = new Map<string, Expected>();
  const text = (value: unknown) => (value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));
  const read = (path: string) => ends.get(path.split(".")[1] ?? "")?.value ?? null;
  const fill = (given: string) => given.replace(/\{\{(.*?)\}\}/g, (_, path: string) => text(read(path)));
  const tried = (name: string, max: number) => {
    const { tries } = scripts.get(name) as Script;
    for (let attempt = 1; ; attempt++) {
      const { ok, mayRetry } = tries[Math.min(attempt, tries.length) - 1] as Script["tries"][number];
      if (ok || !mayRetry || attempt > max) return { ok, attempt };
    }
  };
  for (const step of document.steps) {
    const { id, kind, needs, when, retry, config } = step as unknown as {
      id: string;
      kind: string;
      needs: string[];
      when?: string;
      retry: { max: number };
      config: { prompt: string; text: string; values: string[]; items: number[] };
    };
    const skips = needs.length > 0 && needs.every((need) => ends.get(need)?.status === "skipped");
    const holds = when === undefined || (read(when.replace("not ", "")) !== null) !== when.startsWith("not ");
    if (skips || !holds) ends.set(id, { status: "skipped", value: null, tries: 0 });
    else if (kind === "work") {
      const { ok, attempt } = tried(id, retry.max);
      const value = ok ? textOf({ step_id: id, item: -1, config: { prompt: fill(config.prompt) } }) : null;
      ends.set(id, { status: ok ? "succeeded" : "failed", value, tries: attempt });
    } else if (kind === "template") ends.set(id, { status: "succeeded", value: fill(config.text), tries: 1 });
    else if (kind === "merge") {
      const came = config.values.filter((one) => ends.get(one.split(".")[1] ?? "")?.status === "succeeded");
      ends.set(id, { status: "succeeded", value: came.map((one) => read(one.slice(1))), tries: 1 });
    } else {
      const results = config.items.map((item) =>
        tried(`${id}:${item}`, 1).ok ? textOf({ step_id: id, item, config: { prompt: String(item) } }) : null,
      );
      ends.set(id, { status: "succeeded", value: results, tries: 1 });
    }
  }
  return ends;
}

/** Throws if a run did not end as it must. */
function check(given: Case, simulated: SimulatedRun, run: WorkflowRunRow, steps: readonly WorkflowStepRow[]): void {
  const model = expected(given);
  const byId = new Map(given.document.steps.map((step) => [step.id as string, step]));
  assert.deepEqual(simulated.defects, []);
  // Each step ends once, in a final state.
  assert.deepEqual(simulated.changedAfterEnd, []);
  assert.ok(
    steps.every(
      ({ status, finished_at }) => finished_at !== null && !["pending", "running", "waiting"].includes(status),
    ),
  );
  for (const { unit, over, open } of simulated.starts) {
    const step = byId.get(unit.step_id);
    for (const need of (step?.needs ?? []) as string[])
      assert.ok(over.has(need), `${unit.step_id} began before ${need} ended`);
    if (step?.kind === "map") {
      const { max_parallel } = step.config as { max_parallel: number };
      assert.ok(open <= max_parallel, `${unit.step_id} has ${open} items at once`);
    }
  }
  checkPauses(given, simulated);
  const fails = given.document.steps.filter(
    ({ id, on_error }) => on_error === "fail" && model.get(id as string)?.status === "failed",
  );
  const deadline = run.ts + (given.document.limits?.max_wall_clock_seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  assert.ok((run.finished_at ?? 0) <= deadline + stopMs, "the run ended long after its deadline");
  const isLate = run.error?.startsWith("deadline") === true;
  if (isLate) {
    assert.ok((run.finished_at ?? 0) >= deadline, "the run ended before its deadline");
    assert.ok(run.status === "failed" || given.cancelAt !== null, run.status);
  } else if (given.cancelAt === null)
    assert.equal(run.status, fails.length > 0 ? "failed" : "succeeded", run.error ?? "");
  const isWhole = run.status === "succeeded";
  for (const { step_id, status, output } of steps) {
    const { status: wanted, value, tries } = model.get(step_id) as Expected;
    if (isWhole || status === "skipped") assert.equal(status, wanted, step_id);
    if (status !== "succeeded") continue;
    assert.equal(wanted, "succeeded", step_id);
    const kind = byId.get(step_id)?.kind as string;
    assert.deepEqual(JSON.parse(output ?? "null")[portOf(kind)], value, step_id);
    const begun = simulated.starts.filter(({ unit }) => unit.step_id === step_id && unit.item < 0).length;
    if (kind === "work") assert.equal(begun, tries, `tries of ${step_id}`);
  }
  if (!isWhole) return;
  const outputs = Object.fromEntries([...model].map(([id, { value }]) => [id, value]));
  assert.deepEqual(JSON.parse(run.outputs ?? "null"), outputs);
  for (const [id, { status, tries }] of model) {
    const begun = simulated.starts.filter(({ unit }) => unit.step_id === id && unit.item < 0).length;
    if (byId.get(id)?.kind === "work" && status === "failed") assert.equal(begun, tries, `tries of ${id}`);
  }
}

/** Throws if a try began before its pause was over, or long after it. Pauses double. */
function checkPauses({ kills, missingUntil }: Case, { starts }: SimulatedRun): void {
  for (const { unit, at } of starts) {
    const before = starts.find((one) => unitKey(one.unit) === unitKey(unit) && one.unit.attempt === unit.attempt - 1);
    if (before === undefined) continue;
    const [pause, waited] = [1_000 * 2 ** (before.unit.attempt - 1), at - before.endsAt];
    assert.ok(waited >= pause, `${unitKey(unit)} paused for ${waited} ms only`);
    if (kills.size === 0 && missingUntil === 0)
      assert.ok(waited < 2 * pause, `${unitKey(unit)} paused for ${waited} ms`);
  }
}

for (const dialect of gateDialects)
  describe(`a run of a workflow, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: TestStore["store"];
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
    });

    test("a process that does not know the newest version of a run cannot put it off", async () => {
      const tenant = store.tenant("late");
      const run: WorkflowRunRow = {
        ...{ id: "r", workflow_id: "w", revision: 1, status: "running", inputs: "{}", taint: [], outputs: null },
        ...{ error: null, version: 1, cause: "request", seed: "s", cost_usd: 0, ts: 1, finished_at: null, wake_at: 5 },
        starter: { sub: "ann", scopes: [], scheme: "none", issuer: "" },
      };
      const before: WorkflowStepRow = { ...newStep("r", "s"), status: "running", attempt: 1 };
      await tenant.write(beginWorkflowRunOps(tenant, run, [before]));
      await tenant.write(advanceRunOps(tenant, "r", 1, run, [{ ...before, status: "succeeded", output: "{}" }]));

      const late = tenant.write(putOffRunOps(tenant, run, 9, [{ ...before, due_at: 9 }]));

      await assert.rejects(late, ({ code }: { code: string }) => code === "conflict");
      assert.equal((await stepsOfRun(tenant, "r"))[0]?.status, "succeeded");
    });
    let tenants = 0;

    async function simulate(given: Case, faults: Faults = {}): Promise<void> {
      const simulated = new SimulatedRun(store, `t${++tenants}`, given.document, given.scripts, faults);
      simulated.kills = given.kills;
      simulated.cancelAt = given.cancelAt;
      simulated.missingUntil = given.missingUntil;
      const { run, steps } = await simulated.run();
      check(given, simulated, run, steps);
    }

    test("ends as the model says, over random graphs, failures, cancels and kills", async () => {
      const seeds = runs(1_000) < 1_000 ? 100 : 1_000;
      for (let seed = 1; seed <= seeds; seed++)
        await simulate(caseOf(seed)).catch((error: unknown) => {
          throw new Error(`seed ${seed}`, { cause: error });
        });
    });

    const changed = (change: (step: Record<string, unknown>) => Record<string, unknown>) => ({
      definition: (document: Document): Document => ({ ...document, steps: document.steps.map(change) }),
    });
    /** The last statement of each tenant that has stored the end of a step. */
    const ends = new Map<string, WriteOp>();
    const bugs: Readonly<Record<string, Faults>> = {
      "a batch that ends a step again": {
        ops(ops, tenantId) {
          const before = ends.get(tenantId);
          const end = ops.find(({ params }) => params.includes("succeeded") && params.includes(SimulatedRun.runId));
          if (end !== undefined) ends.set(tenantId, end);
          if (before === undefined) return ops;
          return [...ops, { ...before, params: before.params.map((one) => (one === "succeeded" ? "failed" : one)) }];
        },
      },
      "a deadline that is ignored": { definition: ({ limits: _, ...document }) => document },
      "a step that does not wait for its needs": changed(({ needs: _, ...step }) => step),
      "a failure that goes on": changed((step) => ({ ...step, on_error: "continue" })),
      "a failure that ends the run": changed((step) => ({ ...step, on_error: "fail" })),
      "a condition that is ignored": changed(({ when: _, ...step }) => step),
      "a condition that is turned round": changed((step) =>
        typeof step.when === "string" ? { ...step, when: `not (${step.when})` } : step,
      ),
      "a step that is not tried again": changed((step) => ({ ...step, retry: { max: 0 } })),
      "a step that is tried once too often": changed((step) => ({
        ...step,
        retry: { max: (step.retry as { max: number }).max + 1, backoff_seconds: 1 },
      })),
      "a merge in another order": changed((step) =>
        step.kind === "merge"
          ? { ...step, config: { values: [...(step.config as { values: string[] }).values].reverse() } }
          : step,
      ),
      "a map with one item too many at once": changed((step) => {
        const config = step.config as { max_parallel?: number };
        return step.kind === "map"
          ? { ...step, config: { ...config, max_parallel: (config.max_parallel ?? 0) + 1 } }
          : step;
      }),
      "work that is repeated after it may have changed something": {
        work: (kind) => ({
          ...kind,
          async look(unit, services) {
            const looked = await kind.look?.(unit, services);
            if (looked === undefined) throw new Error("the kind has no look");
            return looked.kind === "failed" ? { ...looked, mayRetry: true } : looked;
          },
        }),
      },
    };
    for (const [bug, faults] of Object.entries(bugs))
      test(`planted: ${bug} is found`, async () => {
        let found = false;
        for (let seed = 1; seed <= 100 && !found; seed++) {
          const given = caseOf(seed);
          await simulate(given, faults).catch((error: unknown) => {
            if (!(error instanceof assert.AssertionError)) throw error;
            found = true;
          });
        }
        assert.ok(found);
      });

    test("ends after 60 days, also during a wait", async () => {
      const pause = (id: string, needs: string[]) => ({ id, needs, kind: "wait", config: { seconds: 29 * 86_400 } });
      const steps = [pause("a", []), pause("b", ["a"]), pause("c", ["b"])];
      const simulated = new SimulatedRun(store, `t${++tenants}`, { steps, outputs: {} }, new Map());

      const { run, steps: ended } = await simulated.run();

      assert.match(run.error ?? "", /^deadline: /);
      assert.equal(run.finished_at, run.ts + 60 * 86_400_000);
      assert.deepEqual(
        ended.map(({ status }) => status),
        ["succeeded", "succeeded", "cancelled"],
      );
    });

    test("waits for the plugin of its kind and then continues", async () => {
      const steps = [
        { id: "a", needs: [], kind: "work", config: { prompt: "p" } },
        {
          id: "m",
          needs: ["a"],
          kind: "map",
          config: { items: [0, 1], step: { kind: "work", config: { prompt: "q" } } },
        },
      ];
      const outputs = { a: "$steps.a.text", m: "$steps.m.results" };
      for (const at of [1, 2, 3, 4]) {
        const simulated = new SimulatedRun(store, `t${++tenants}`, { steps, outputs }, new Map());
        simulated.kills = new Map([[at, "after"]]);
        simulated.missingUntil = 1_000_000 + 100_000 * (at % 2);

        const { run } = await simulated.run();

        assert.equal(run.status, "succeeded", run.error ?? "");
        assert.deepEqual(JSON.parse(run.outputs ?? "null"), { a: "a(p)", m: ["m:0(q)", "m:1(q)"] });
        assert.ok(simulated.starts.every(({ unit }) => unit.attempt === 1));
        assert.deepEqual(simulated.defects, []);
      }
    });

    test("1,000 waiting runs cost their rows only", async () => {
      const tenant = `t${++tenants}`;
      const steps = [
        { id: "w", kind: "wait", config: { seconds: 3_600 } },
        { id: "t", needs: ["w"], kind: "template", config: { text: "x" } },
      ];
      const waiting = new SimulatedRun(store, tenant, { steps, outputs: {} }, new Map());
      waiting.now = Date.now();
      await waiting.beginMany(1_000);
      const reads: Record<string, unknown>[][] = [];
      const read = async (...args: Parameters<typeof store.system.read>) => {
        const rows = await store.system.read(...args);
        reads.push(rows);
        return rows;
      };
      const counted = { system: { read } } as unknown as typeof store;
      const bus = { tell() {} } as unknown as Parameters<typeof lookAtWorkflows>[1];

      await lookAtWorkflows(counted, bus);

      assert.equal(reads.length, 1);
      assert.ok(reads.flat().every(({ tenant_id }) => tenant_id !== tenant));
      assert.equal(waiting.timers, 0);
      const { rows } = await workflowRunsPage(store.tenant(tenant), {}, null, 1_000);
      assert.deepEqual([rows.length, new Set(rows.map(({ status }) => status))], [1_000, new Set(["waiting"])]);
    });

    test("continues after a kill before or after each of its batches", async () => {
      const retry = { max: 1, backoff_seconds: 1 };
      const steps = [
        { id: "a", needs: [], kind: "work", config: { prompt: "p" }, retry, on_error: "continue" },
        { id: "t", needs: ["a"], kind: "template", config: { text: "t{{steps.a.text}}" }, retry, on_error: "continue" },
        { id: "w", needs: ["t"], kind: "wait", config: { seconds: 1 } },
        { id: "c", needs: ["w"], kind: "condition", config: { expr: "steps.t.text exists" } },
        { id: "p", needs: ["c"], kind: "approval", config: { message: "?", ttl_seconds: 1 } },
        {
          ...{ id: "m", needs: ["p"], kind: "map", retry, on_error: "continue" },
          config: { items: [0, 1, 2], max_parallel: 2, step: { kind: "work", config: { prompt: "{{item}}" } } },
        },
        { id: "g", needs: ["m"], kind: "merge", config: { values: ["$steps.m.results", "$steps.p.approved"] } },
      ];
      const outputs = { all: "$steps.g.values", text: "$steps.t.text" };
      const scripts = new Map([["a", { tries: [false, true].map((ok) => ({ ok, ms: 5, mayRetry: true })) }]]);
      const wanted = { all: [["m:0(0)", "m:1(1)", "m:2(2)"], false], text: "ta(p)" };
      let batches = Number.POSITIVE_INFINITY;
      for (let at = 0; at <= batches; at++)
        for (const when of at === 0 ? (["before"] as const) : (["before", "after"] as const)) {
          const simulated = new SimulatedRun(store, `t${++tenants}`, { steps, outputs }, scripts);
          simulated.kills = new Map([[at, when]]);
          const { run, steps: ended } = await simulated.run();

          assert.equal(run.status, "succeeded", `${when} batch ${at}: ${run.error}`);
          assert.deepEqual(JSON.parse(run.outputs ?? "null"), wanted);
          assert.ok(ended.every(({ status }) => status === "succeeded"));
          assert.deepEqual(simulated.defects, []);
          const names = simulated.starts.map(({ unit }) => `${unit.step_id}:${unit.item}:${unit.attempt}`);
          assert.deepEqual(names.toSorted(), ["a:-1:1", "a:-1:2", "m:0:1", "m:1:1", "m:2:1"]);
          if (at === 0) batches = simulated.writes;
        }
      assert.ok(batches > 5 && batches < 100);
    });
  });
