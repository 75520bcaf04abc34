import assert from "node:assert/strict";
import { test } from "node:test";
import { readSettings } from "../../../governance/settings/settings.ts";
import { tracingOf } from "../../../governance/settings/tracing-settings.ts";
import { contentText, tracerOf } from "../../../governance/tracing/tracer.ts";
import { Sim } from "../../support/sim-env.ts";

const endpoint = { SVC_OTEL_ENDPOINT: "http://collector:4318" };
const settingsOf = (environment: Record<string, string>) => readSettings(environment).settings;
const tracer = (environment: Record<string, string>) => {
  const made = tracerOf(settingsOf(environment), new Sim(1).env());
  assert.ok(made);
  return made;
};
const parent = (flags: string) => `00-${"0".repeat(24)}ffffffff-${"b".repeat(16)}-${flags}`;

test("traces are off without an endpoint, and then no tracer exists", () => {
  const cases: readonly [Record<string, string>, string | null][] = [
    [{}, null],
    [{ SVC_OTEL_ENABLED: "false", ...endpoint }, null],
    [{ SVC_OTEL_ENABLED: "true" }, "http://localhost:4318/v1/traces"],
    [endpoint, "http://collector:4318/v1/traces"],
    [{ SVC_OTEL_ENDPOINT: "http://collector:4318/v1/traces" }, "http://collector:4318/v1/traces"],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://standard:4318/" }, "http://standard:4318/v1/traces"],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://standard:4318/", ...endpoint }, "http://collector:4318/v1/traces"],
  ];

  for (const [environment, url] of cases) {
    const settings = settingsOf(environment);
    assert.equal(tracingOf(settings)?.url ?? null, url, JSON.stringify(environment));
    assert.equal(tracerOf(settings, new Sim(1).env()) === null, url === null);
  }
});

test("headers of the standard form are read, and grpc is refused by name", () => {
  const read = settingsOf({ ...endpoint, OTEL_EXPORTER_OTLP_HEADERS: "X-Token=a%20b, y=c=d,=e" });
  const { issues } = readSettings({ ...endpoint, SVC_OTEL_PROTOCOL: "grpc" });

  assert.deepEqual(tracingOf(read)?.headers, { "x-token": "a b", y: "c=d" });
  assert.ok(read.secretValues.includes("a b"));
  assert.match(issues[0]?.reason ?? "", /grpc is not supported by this version; use http\/protobuf/);
});

test("the trace id decides on sampling, and a caller's id and flag count only if it is trusted", () => {
  const half = tracer({ ...endpoint, SVC_OTEL_SAMPLE_RATIO: "0.5" });
  const trusting = tracer({ ...endpoint, SVC_OTEL_SAMPLE_RATIO: "0", SVC_OTEL_TRUST_PARENT: "true" });

  const sampled = Array.from({ length: 2_000 }, () => half.begin()).filter((span) => span !== null).length;
  assert.ok(sampled > 850 && sampled < 1_150, String(sampled));
  const low = `00-${"c".repeat(24)}00000000-${"b".repeat(16)}-01`;
  const chosen = Array.from({ length: 200 }, () => half.begin(low));
  assert.ok(chosen.filter((span) => span === null).length > 50);
  for (const span of chosen) assert.ok(span === null || (span.parent_span_id === null && !low.includes(span.trace_id)));
  assert.equal(trusting.begin(parent("01"))?.parent_span_id, "b".repeat(16));
  assert.equal(trusting.begin(parent("00")), null);
  assert.equal(trusting.begin(), null);
});

test("a malformed traceparent begins a trace of its own", () => {
  const all = tracer({ ...endpoint, SVC_OTEL_TRUST_PARENT: "true" });
  const malformed = [
    "",
    "00-xyz",
    parent("01").toUpperCase(),
    `00-${"0".repeat(32)}-${"b".repeat(16)}-01`,
    "x".repeat(5_000),
  ];

  for (const header of malformed) {
    const span = all.begin(header);
    assert.match(span?.trace_id ?? "", /^[0-9a-f]{32}$/);
    assert.equal(span?.parent_span_id, null);
  }
});

test("2,048 spans of a thread wait, and the others are counted", () => {
  const all = tracer(endpoint);
  const span = all.begin();
  assert.ok(span);
  for (let at = 0; at < 2_050; at++) all.end(span, { name: "x", kind: "internal", start: 0, attributes: {} });

  const { spans, dropped } = all.take();

  assert.deepEqual([spans.length, dropped, all.take().spans.length], [2_048, 2, 0]);
  assert.equal(contentText("x".repeat(20_000)).length, 16_384);
});
