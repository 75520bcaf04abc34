// Threat 11, decision 19 (text of tenants, people and models never becomes a label of a metric): no caller can grow the
// set of labels.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { Metrics, renderMetrics } from "../../governance/metrics.ts";
import { calls, inTurn, startChat, turn } from "../support/chat.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ planter: { tenant_id: "planted-tenant", sub: "planted-sub", scopes: ["*"] } });

describe("labels of metrics", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let text: string;

  before(async () => {
    const { server: started, mock } = await startChat(atEnd, { models: ["plain"], env });
    server = started;
    mock.answer(
      "plain",
      inTurn(calls(["planted_tool", { planted: "planted" }], ["calculator", { expression: "6*7" }]), {
        text: "planted",
      }),
    );
    const as = { key: keys.planter };
    const spec = { tools: ["calculator"], model: { id: "plain" } };
    const manifest = { metadata: { name: "planted-manifest" }, spec };
    assert.equal(
      (await server.request("PUT", "/manifests/planted-manifest", { ...as, body: { manifest } })).status,
      200,
    );
    const said = await server.post("/chat", turn("planted-manifest", "planted", { thread_id: "planted-thread" }), as);
    assert.equal(said.status, 200, said.text);
    await server.get("/planted-path/planted", as);
    await server.post("/chat", turn("planted-unknown", "hi"), as);
    ({ text } = await server.get("/metrics", as));
  });

  test("contain no text of a tenant or a model", () => {
    assert.doesNotMatch(text, /planted/);
    assert.match(text, /^svc_runs_total\{manifest_id="custom",outcome="ok"\} 1$/m);
    assert.match(text, /^svc_tool_calls_total\{[^}]*manifest_id="custom"[^}]*\} 1$/m);
  });

  test("are limited to a thousand series a metric, and dropped ones are counted", async () => {
    const metrics = new Metrics();
    for (let i = 0; i < 3000; i++)
      metrics.count("svc_model_switch_total", { from: `from-${i}`, to: "to", reason: "provider_error" });

    const { body } = await renderMetrics([metrics.snapshot()], "text");

    const lines = body.split("\n").filter((line) => line.startsWith("svc_model_switch_total{"));
    assert.equal(lines.length, 1000);
    assert.ok(lines.some((line) => /"other".* 2001$/.test(line)));
  });
});
