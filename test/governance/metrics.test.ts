import assert from "node:assert/strict";
import { test } from "node:test";
import { Metrics, renderMetrics } from "../../governance/metrics.ts";

/** The lines of one metric, as a scraper reads them. */
async function linesOf(metrics: Metrics, name: string): Promise<string[]> {
  const { body } = await renderMetrics([metrics.snapshot()], "text");
  return body.split("\n").filter((line) => line.startsWith(`${name}{`));
}

test("existing series keep counting under their names after a thousand others", async () => {
  const metrics = new Metrics();
  for (let i = 0; i < 1500; i++) metrics.count("svc_model_timeout_total", { provider: `p${i}` });

  for (let i = 0; i < 1500; i++) metrics.count("svc_model_timeout_total", { provider: `p${i}` }, 2);

  const lines = await linesOf(metrics, "svc_model_timeout_total");
  assert.deepEqual(lines, [
    ...Array.from({ length: 999 }, (_, i) => `svc_model_timeout_total{provider="p${i}"} 3`),
    `svc_model_timeout_total{provider="other"} ${501 * 3}`,
  ]);
});

test("histograms have the same bound, and excess series are merged into the others", async () => {
  const metrics = new Metrics();
  for (let round = 0; round < 2; round++)
    for (let i = 0; i < 1002; i++) metrics.observe("svc_model_call_seconds", { model: `m${i}`, status: "ok" }, 2);

  const counts = await linesOf(metrics, "svc_model_call_seconds_count");
  const sums = await linesOf(metrics, "svc_model_call_seconds_sum");

  assert.equal(counts.length, 1000);
  assert.ok(counts.slice(0, 999).every((line) => line.endsWith("} 2")));
  assert.equal(counts.at(-1), 'svc_model_call_seconds_count{model="other",status="other"} 6');
  assert.equal(sums.at(-1), 'svc_model_call_seconds_sum{model="other",status="other"} 12');
});

test("metrics have separate bounds", async () => {
  const metrics = new Metrics();
  for (let i = 0; i < 1500; i++) metrics.count("svc_model_timeout_total", { provider: `p${i}` });

  metrics.count("svc_model_retry_total", { provider: "late", status: "500" });

  assert.deepEqual(await linesOf(metrics, "svc_model_retry_total"), [
    'svc_model_retry_total{provider="late",status="500"} 1',
  ]);
});

test("a value on the edge of a bucket is in it, and the last bucket has everything", async () => {
  const metrics = new Metrics();
  for (const seconds of [0.001, 0.0011, 3600, 3601])
    metrics.observe("svc_model_call_seconds", { model: "m", status: "ok" }, seconds);

  const lines = await linesOf(metrics, "svc_model_call_seconds_bucket");
  const upTo = (le: string) =>
    lines
      .find((line) => line.includes(`le="${le}"`))
      ?.split(" ")
      .at(-1);

  assert.deepEqual([upTo("0.001"), upTo("0.005"), upTo("300"), upTo("3600"), upTo("+Inf")], ["1", "2", "2", "3", "4"]);
});
