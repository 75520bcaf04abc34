import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { openLab } from "../../perf/lab.ts";
import { parseOptions } from "../../perf/options.ts";

const home = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

test("both engines run at once, do the same turns, and leave nothing behind", async (t) => {
  const out = mkdtempSync(join(tmpdir(), "svc-perf-"));
  t.after(() => rmSync(out, { recursive: true }));
  const lab = await openLab(parseOptions(["--out", out], home), () => {});
  t.after(() => lab.close());
  const { list, stop } = await lab.startTargets(["svc", "svc-node"], "engines");
  const load = { manifest: "perf-burst", model: "mock-burst", streams: 2, rampMs: 0, turnsMax: 8, secondsMax: 30 };

  const answers = await Promise.all(list.map(({ port }) => oldRequest(port)));
  const turns = [];
  for (const target of list) turns.push(await lab.runTurns(target, load));
  const dirs = readdirSync(out).length;
  await stop();
  const gone = list.map(({ port }) => oldRequest(port).catch((error) => error.code));
  assert.deepEqual(await Promise.all(gone), ["ECONNREFUSED", "ECONNREFUSED"]);
  await lab.close();

  assert.deepEqual(
    list.map(({ name }) => name),
    ["svc", "svc-node"],
  );
  // uWebSockets.js does not speak HTTP/1.0.
  assert.match(answers[0] ?? "", /^HTTP\/1\.1 505 /);
  assert.match(answers[1] ?? "", /^HTTP\/1\.1 200 /);
  for (const { turnsWithRamp, errors, othersShare } of turns) {
    assert.deepEqual([turnsWithRamp, errors], [8, {}]);
    assert.ok(!existsSync("/proc/stat") || (othersShare >= 0 && othersShare <= 1), String(othersShare));
  }
  assert.equal(new Set(turns.map(({ prefix }) => prefix)).size, 2);
  assert.ok(dirs > 0);
  assert.deepEqual(readdirSync(out), []);
});

function oldRequest(port: number): Promise<string> {
  return text(connect(port, "127.0.0.1").end("GET /health HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n"));
}
