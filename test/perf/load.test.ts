import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Histogram } from "../../perf/histogram.ts";
import { openStreams } from "../../perf/idle-load.ts";
import type { TurnJob } from "../../perf/protocol.ts";
import type { Results } from "../../perf/results.ts";
import { runTurns } from "../../perf/turn-load.ts";
import { loadTokens } from "../support/mock-model/behaviours.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";

let server: MockModel;

before(async () => {
  server = await startMockModel();
});
after(() => server.close());

function turnJob(model: string, changes: Partial<TurnJob> = {}): TurnJob {
  return {
    kind: "turns",
    port: server.port,
    path: "/v1/chat/completions",
    headers: { authorization: "Bearer x" },
    body: JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "{thread}" }] }),
    dialect: "openai",
    expected: loadTokens.join(""),
    threads: { prefix: "t" },
    streams: 4,
    rampMs: 0,
    turnsMax: 40,
    secondsMax: 60,
    turnTimeoutMs: 30_000,
    serverPids: [process.pid],
    ...changes,
  };
}

function threadsAsked(model: string): string[] {
  const asked = server.requests.filter((request) => request.model === model);
  return asked.map(({ body }) => (body.messages as [{ content: string }])[0].content);
}

test("a job does its exact number of turns, and checks every answer", async () => {
  const result = await runTurns(turnJob("mock-burst"));

  assert.equal(result.turnsWithRamp, 40);
  assert.deepEqual(result.errors, {});
  assert.equal(Histogram.from(result.turn).count, 40);
  assert.equal(threadsAsked("mock-burst").length, 40);
  assert.equal(new Set(threadsAsked("mock-burst")).size, 40);
  // The window ends when the last turn begins, with up to four in progress.
  assert.ok(result.turns >= 36 && result.turns <= 40, String(result.turns));
});

test("the first token comes before the turn ends", async () => {
  const result = await runTurns(turnJob("mock-paced-2", { streams: 1, turnsMax: 1 }));

  const first = Histogram.from(result.ttft).quantileMs(0.5);
  const whole = Histogram.from(result.turn).quantileMs(0.5);
  assert.ok(whole >= 63 * 2, String(whole));
  assert.ok(first < whole, `${first} of ${whole}`);
});

test("a fixed set of threads has one turn per thread at a time", async () => {
  const live = new Set<string>();
  const overlaps: string[] = [];
  server.answer("watched", ({ body }) => {
    const thread = (body.messages as [{ content: string }])[0].content;
    if (live.has(thread)) overlaps.push(thread);
    live.add(thread);
    return { text: loadTokens, usage: null, wire: { gapMs: 0.1 } };
  });
  const running = runTurns(turnJob("watched", { threads: { prefix: "s", count: 7 }, streams: 3, turnsMax: 60 }));
  for (let n = 0; n < 60; n += 1) {
    let request = await server.next();
    while (request.model !== "watched") request = await server.next();
    void request.ended.then(() => live.delete((request.body.messages as [{ content: string }])[0].content));
  }

  const result = await running;

  assert.equal(result.turnsWithRamp, 60);
  assert.deepEqual(overlaps, []);
  assert.equal(new Set(threadsAsked("watched")).size, 7);
});

for (const [model, problem] of [
  ["mock-status-503", "status 503"],
  ["mock-text", "wrong text"],
  ["mock-truncated", "connection closed"],
  ["no-done", "no [DONE]"],
] as const) {
  test(`${model} counts as ${problem} and not as a turn`, async () => {
    server.answer("no-done", { text: loadTokens, wire: { done: false } });

    const result = await runTurns(turnJob(model, { turnsMax: 8 }));

    assert.equal(result.turnsWithRamp, 0);
    assert.deepEqual(result.errors, { [problem]: 8 });
    assert.equal(Histogram.from(result.turn).count, 0);
  });
}

test("a missing server ends the job by itself", async () => {
  const gone = await startMockModel();
  await gone.close();

  const result = await runTurns(turnJob("mock-burst", { port: gone.port, turnsMax: 1_000_000 }));

  assert.equal(result.turnsWithRamp, 0);
  assert.ok((result.errors["connection closed"] ?? 0) >= 1000);
});

test("a turn that hangs is dropped and counted", async () => {
  const result = await runTurns(turnJob("mock-hang", { turnTimeoutMs: 1, streams: 2, turnsMax: 2 }));

  assert.deepEqual(result.errors, { timeout: 2 });
});

test("turns of the ramp are run but not measured", async () => {
  const result = await runTurns(turnJob("mock-paced-1", { rampMs: 50, streams: 5, turnsMax: 5 }));

  assert.deepEqual(result.errors, {});
  assert.equal(Histogram.from(result.turn).count, 5);
  assert.ok(result.turnsWithRamp >= 10, String(result.turnsWithRamp));
});

test("idle streams stay open until they are closed, and failures are counted", async () => {
  const open = new Set<string>();
  const http = createServer((request, response) => {
    if (request.url?.endsWith("2")) return response.writeHead(404).end();
    open.add(request.url ?? "");
    response.writeHead(200, { "content-type": "text/event-stream" }).write('id: 0\ndata: {"event":"snapshot"}\n\n');
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const { port } = http.address() as AddressInfo;

  const streams = await openStreams({
    kind: "idle",
    port,
    path: "/chat/stream/{thread}",
    headers: {},
    threads: { prefix: "i", count: 4 },
    streams: 200,
    timeoutMs: 30_000,
  });
  await streams.close();

  assert.equal(streams.result.open, 150);
  assert.deepEqual(streams.result.errors, { "status 404": 50 });
  assert.deepEqual([...open].sort(), ["/chat/stream/i-00000000", "/chat/stream/i-00000001", "/chat/stream/i-00000003"]);
  await new Promise((resolve) => http.close(resolve));
});

test("the harness measures mock and relay, and leaves a JSON file and a report", async () => {
  const home = fileURLToPath(new URL("../..", import.meta.url));
  const out = mkdtempSync(join(tmpdir(), "svc-perf-"));
  const args = [
    "--import",
    "./strip-types.js",
    "perf/perf.ts",
    "burst",
    "trickle",
    "--only",
    "direct,relay",
    "--turns",
    "64",
    "--rounds",
    "1",
    "--streams",
    "8",
    "--warm-up",
    "0",
    "--out",
    out,
  ];

  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: home });

  const files = readdirSync(out).sort();
  const results: Results = JSON.parse(
    readFileSync(join(out, files.find((name) => name.endsWith(".json")) ?? ""), "utf8"),
  );
  assert.deepEqual(
    files.map((name) => name.replace(/^.*\./, "")),
    ["html", "json"],
  );
  assert.deepEqual(
    results.rows.map((row) => [row.scenario, row.target, row.errors]),
    [
      ["burst", "direct", {}],
      ["burst", "relay", {}],
      ["trickle", "direct", {}],
      ["trickle", "relay", {}],
    ],
  );
  assert.deepEqual(results.failures, []);
  assert.match(stdout, /^trickle +relay /m);
  rmSync(out, { recursive: true });
});

test("the harness reports that svc did not start, and fails", async () => {
  const home = fileURLToPath(new URL("../..", import.meta.url));
  const out = mkdtempSync(join(tmpdir(), "svc-perf-"));
  const args = [
    "--import",
    "./strip-types.js",
    "perf/perf.ts",
    "tools",
    "--svc",
    join(out, "nothing.js"),
    "--out",
    out,
  ];

  const failed = await promisify(execFile)(process.execPath, args, { cwd: home }).catch((error) => error);

  assert.equal(failed.code, 1);
  assert.match(failed.stdout, /not measured: tools: svc did not get ready: it ended with 1/);
  rmSync(out, { recursive: true });
});
