import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { startChild } from "../../perf/child.ts";
import { isWhole, partsOf, type Turn } from "../../perf/first-word-points.ts";
import { probeEnv } from "../../perf/first-word-scenario.ts";
import { Marks, readMarks } from "../../perf/marks.ts";
import type { TurnJob } from "../../perf/protocol.ts";
import { startSvc } from "../../perf/svc-process.ts";
import { runTurns } from "../../perf/turn-load.ts";
import { eventually } from "../support/eventually.ts";
import { loadTokens } from "../support/mock-model/behaviours.ts";

const stateless = {
  sent: 100,
  handler: 101,
  admitted: 102,
  run: 103,
  accepted: 103.5,
  modelAsked: 104,
  modelSent: 105,
  modelHas: 106,
  modelSays: 107,
  modelRead: 108,
  firstText: 109,
  written: 110,
  received: 112,
};
const threaded = {
  ...stateless,
  threadAsked: 103.1,
  threadOpened: 103.2,
  storeAsked: 103.5,
  storeBegun: 105,
  storeCommitting: 105.5,
  storeCommitted: 111,
  storeAnswered: 112,
  accepted: 113,
  written: 114,
  received: 115,
};

function turn(points: Record<string, number>): Turn {
  return new Map(Object.entries(points));
}

function found(turns: readonly Turn[]): Record<string, number> {
  return Object.fromEntries(partsOf(turns).map(({ part, p50Ms }) => [part, Math.round(p50Ms * 100) / 100]));
}

test("each part of a turn lies between two points", () => {
  const parts = found([turn(threaded)]);

  assert.deepEqual(parts, {
    "request sent, until the handler has it": 1,
    "authentication, rate limit": 1,
    "body, route, until the run's actor begins": 1,
    "admission, until the thread's actor is there": 0.1,
    "the thread opens its log": 0.1,
    "store: the batch is made and sent": 0.3,
    "store: its thread begins with it": 1.5,
    "store: the statements of its group": 0.5,
    "store: commit and flush": 5.5,
    "store: the answer is back": 1,
    "the run is accepted": 1,
    "model: the question is made": 0.8,
    "model: a connection takes it": 1,
    "model: it has it": 1,
    "model: it begins to answer": 1,
    "model: the answer is read": 1,
    "model: the run has its first text": 1,
    "both there, until the word is written": 1,
    "written, until the client has read it": 1,
    "of it: the word waited for the store": 4,
    "of it: the store waited for the word": 0,
    "request sent, until the first word is read": 15,
  });
});

test("a turn without a thread has no batch, and its parts begin at the last point", () => {
  const parts = found([turn(stateless)]);

  assert.equal(parts["store: commit and flush"], undefined);
  assert.equal(parts["the thread opens its log"], undefined);
  assert.equal(parts["model: the question is made"], 1);
  assert.equal(parts["of it: the word waited for the store"], 0);
  assert.equal(parts["of it: the store waited for the word"], 5.5);
});

test("several turns are summarized by median and ninetieth percentile", () => {
  const turns = Array.from({ length: 10 }, (_, n) => turn({ ...stateless, received: 110 + n }));

  const [last] = partsOf(turns).filter(({ part }) => part.startsWith("written"));

  assert.deepEqual(last, { part: "written, until the client has read it", p50Ms: 4.5, p90Ms: 8 });
});

test("points that are recorded while a file is written are not lost at the end", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "svc-marks-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const marks = new Marks(dir);
  marks.note("t1-00000001", "sent", 5);
  marks.close();
  marks.note("t1-00000001", "received", 9);
  marks.close();

  const noted = await eventually("the second note", async () => {
    const points = readMarks(dir, "t1-").get("t1-00000001");
    return points?.has("received") ? points : undefined;
  });

  assert.deepEqual(
    [...noted],
    [
      ["sent", 5],
      ["received", 9],
    ],
  );
});

test("a turn without a first word is incomplete", () => {
  const { written: _, ...unwritten } = stateless;

  assert.equal(isWhole(turn(stateless)), true);
  assert.equal(isWhole(turn(unwritten)), false);
});

test("the first time at a point counts, over all files, for the requested turns", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "svc-marks-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const marks = new Marks(dir);
  marks.note("t1-00000001", "sent", 5);
  marks.note("t1-00000001", "sent", 9);
  marks.note("t11-00000001", "sent", 1);
  marks.close();

  const noted = await eventually("the note", async () => readMarks(dir, "t1-").get("t1-00000001"));

  assert.deepEqual([...noted], [["sent", 5]]);
  assert.equal(readMarks(dir, "t1-").size, 1);
});

// Runs the probe against its server: a renamed method would leave its points out.
for (const [name, actorThreads, httpEngine] of [
  ["in the main thread", "0", "uws"],
  ["in a thread of their own, on Node's HTTP server", "1", "node"],
] as const) {
  test(`every point of a turn is recorded, with actors ${name}`, async (t) => {
    const dir = mkdtempSync(join(tmpdir(), "svc-marks-"));
    t.after(() => rmSync(dir, { recursive: true, force: true }));
    const launcher = fileURLToPath(new URL("../../svc.js", import.meta.url));
    const mockEntry = new URL("../../perf/first-word-mock.ts", import.meta.url);
    const mock = await startChild<number>(mockEntry, [dir, "mock-trickle"]);
    t.after(() => mock.stop());
    const env = { ...probeEnv(launcher, dir), SVC_ACTOR_THREADS: actorThreads, SVC_HTTP_ENGINE: httpEngine };
    const { signal } = new AbortController();
    const svc = await startSvc({ launcher, dir: join(dir, "svc"), mockPort: mock.ready, env, signal });
    t.after(() => svc.stop());
    const job = (prefix: string, thread: object): TurnJob => ({
      kind: "turns",
      port: svc.port,
      path: "/chat/stream",
      headers: { authorization: `Bearer ${svc.apiKey}`, "x-request-id": "{thread}" },
      body: JSON.stringify({
        manifest: "perf-trickle",
        ...thread,
        messages: [{ role: "user", content: "Go on, {thread}." }],
      }),
      dialect: "frames",
      expected: loadTokens.join(""),
      threads: { prefix },
      streams: 2,
      rampMs: 0,
      turnsMax: 6,
      secondsMax: 30,
      turnTimeoutMs: 30_000,
      serverPids: svc.pids,
      marksDir: dir,
    });

    const onThreads = await runTurns(job("t1", { thread_id: "{thread}" }));
    const without = await runTurns(job("t2", {}));

    assert.deepEqual([onThreads.errors, without.errors], [{}, {}]);
    // The processes write their records a moment later.
    const noted = (prefix: string, points: object) =>
      eventually(`6 turns of ${prefix} at ${Object.keys(points).length} points`, async () => {
        const turns = [...readMarks(dir, prefix).values()].map((each) => [...each.keys()].sort().join(" "));
        const all = Object.keys(points).sort().join(" ");
        return turns.length === 6 && turns.every((each) => each === all) ? turns : undefined;
      });
    await noted("t1-", threaded);
    await noted("t2-", stateless);
  });
}
