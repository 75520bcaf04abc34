import assert from "node:assert/strict";
import { test } from "node:test";
import { parseOptions } from "../../perf/options.ts";
import { scenarioNames } from "../../perf/scenarios.ts";

test("without arguments every scenario runs on every target", () => {
  const options = parseOptions([], "/home/svc");

  assert.deepEqual(options.scenarios, scenarioNames);
  assert.deepEqual(options.targets, ["direct", "relay", "svc", "svc-node"]);
  assert.equal(options.out, "/home/svc/perf/results");
  assert.equal(options.svc, "/home/svc/svc.js");
  assert.equal(options.warmUp, 4);
  assert.equal(options.check, false);
});

test("scenarios run in their own order, once, and paced expands to its four", () => {
  const options = parseOptions(["soak", "paced", "burst", "paced-20"], "/");

  assert.deepEqual(options.scenarios, ["burst", "paced-20", "paced-100", "paced-1000", "paced-2000", "soak"]);
});

test("numbers, targets, settings and directories are applied", () => {
  const options = parseOptions(
    [
      "--only",
      "relay,direct",
      "--turns",
      "10",
      "--seconds=2",
      "--streams",
      "3",
      "--rounds",
      "1",
      "--env",
      "SVC_HTTP_THREADS=2",
      "--env",
      "A=b=c",
      "--out",
      "/o",
      "--check",
      "--warm-up",
      "0",
    ],
    "/",
  );

  assert.deepEqual(options.targets, ["relay", "direct"]);
  assert.deepEqual([options.turns, options.seconds, options.streams, options.rounds], [10, 2, 3, 1]);
  assert.equal(options.warmUp, 0);
  assert.deepEqual(options.env, { SVC_HTTP_THREADS: "2", A: "b=c" });
  assert.deepEqual([options.out, options.dataDir, options.check], ["/o", "/o", true]);
});

test("another checkout is one more target in any selection", () => {
  const options = parseOptions(["--against", "/other/svc.js", "--only", "relay,svc"], "/home/svc");

  assert.deepEqual(options.targets, ["relay", "svc", "svc-against"]);
  assert.deepEqual([options.svc, options.against], ["/home/svc/svc.js", "/other/svc.js"]);
});

for (const args of [
  ["storm"],
  ["--only", "all"],
  ["--turns", "0"],
  ["--turns", "1.5"],
  ["--streams", "1e9"],
  ["--seconds", "many"],
  ["--env", "=x"],
  ["--warm-up", "-1"],
  ["--nothing"],
]) {
  test(`${args.join(" ")} is refused`, () => {
    assert.throws(() => parseOptions(args, "/"), Error);
  });
}
