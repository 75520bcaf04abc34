// A look at a manifest before it is stored: its plan, and its policies against the tool calls on record.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { planCommand, policyCommand } from "../../host/cli/manifest-look.ts";
import { runJson, someRegistries } from "../host/cli/support.ts";
import { calls, inTurn, says, startChatProcess } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  operator: { sub: "olga", scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
  reader: { scopes: ["manifests:read"] },
});
const key = keys.operator;

describe("plans of manifests", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, { models: ["hosted"], env }));
  });

  const manifest = (spec: object) => ({
    metadata: { name: "clerk" },
    spec: { model: { id: "hosted" }, tools: ["calculator", "todo_write"], ...spec },
  });
  const put = async (spec: object) => {
    const answer = await server.request("PUT", "/manifests/clerk", { key, body: { manifest: manifest(spec) } });
    assert.equal(answer.status, 200, answer.text);
  };
  const plan = (spec: object, by = key) =>
    server.post("/manifests/clerk/plan", { manifest: manifest(spec) }, { key: by });
  const policyTest = (body: object, by = key) => server.post("/manifests/clerk/policy-test", body, { key: by });

  test("a plan lists tools, limits, controls and changes, and stores nothing", async () => {
    const unstored = await plan({});
    await put({ governance: { pin_compile: true } });
    mock.answer("hosted", inTurn(calls(["calculator", { expression: "6*7" }]), says("42.")));
    const asked = { manifest: "clerk", thread_id: "one", messages: [{ role: "user", content: "hi" }] };
    assert.equal((await server.post("/chat", asked, { key })).status, 200);

    const changed = await plan({
      governance: { pin_compile: true },
      tools: ["calculator"],
      approvals: [{ id: "sums", tools: ["calc*"] }],
      policies: [{ id: "p", tools: ["calculator"], required_scopes: ["sums:run"] }],
      limits: { max_tool_calls: 3 },
    });
    const same = await plan({ governance: { pin_compile: true } });
    const foreign = await plan({}, keys.stranger);
    const invalid = await plan({ tools: ["no-such-tool"] });
    const versions = await server.get("/manifests/clerk/versions", { key });

    assert.equal(unstored.json.changes, null, unstored.text);
    assert.deepEqual(changed.json.tools, [
      { name: "calculator", effect: "read", risk: "reads", required_scopes: ["sums:run"], approval: "sums" },
    ]);
    assert.deepEqual([changed.json.threads_stopped, changed.json.limits.max_tool_calls], [1, 3]);
    assert.deepEqual(changed.json.controls, ["policies", "approvals", "governance"]);
    const paths = changed.json.changes.map(({ path }: { path: string }) => path);
    assert.ok(paths.includes("spec.tools") && paths.includes("spec.limits.max_tool_calls"), String(paths));
    assert.deepEqual([same.json.changes, same.json.threads_stopped], [[], 0]);
    assert.deepEqual([foreign.json.changes, foreign.json.threads_stopped], [null, 0]);
    assert.equal(invalid.status, 422);
    assert.equal(versions.json.items.length, 1);
  });

  test("a policy test compares recorded calls with a changed manifest", async () => {
    await eventually("the audit row", async () => {
      const { json } = await server.get("/audit?event_type=tool_call", { key });
      return json.items.length >= 1;
    });
    const gated = {
      manifest: manifest({ approvals: [{ id: "sums", tools: ["calculator"], when_args: ["expression"] }] }),
    };
    const scoped = manifest({ policies: [{ id: "p", tools: ["calculator"], required_scopes: ["sums:run"] }] });

    const active = await policyTest({});
    const results = [
      await policyTest(gated),
      await policyTest({ manifest: manifest({ tools: ["todo_write"] }) }),
      await policyTest({ manifest: scoped }),
      await policyTest({ manifest: scoped, scopes: ["sums:run"] }),
      await policyTest({ manifest: scoped, scopes: [] }),
    ];
    const foreign = await policyTest(gated, keys.stranger);
    const refused = await policyTest({}, keys.reader);

    assert.deepEqual([active.json.calls, active.json.passed], [1, 1], active.text);
    assert.deepEqual(
      results.map(({ json }) => [json.findings[0]?.verdict ?? "passed", json.findings[0]?.reason ?? null]),
      [
        ["gated", "approval sums"],
        ["denied", "the manifest has no such tool"],
        ["undecidable", "policy p: the scopes of the caller are not on record"],
        ["passed", null],
        ["denied", "policy p"],
      ],
    );
    assert.equal(foreign.json.calls, 0);
    assert.equal(refused.status, 403);
  });

  test("svc plan and svc policy test give the same online and offline", async () => {
    const file = join(tempDir(atEnd), "clerk.json");
    writeFileSync(file, JSON.stringify(manifest({ tools: ["todo_write"] })));
    const registries = async () => someRegistries("hosted");
    const [look, policy] = [planCommand(registries), policyCommand(registries)];
    const online = { SVC_KEY: key };
    const offline = { SVC_DATA_DIR: server.dataDir };

    const plans = [
      await runJson(look, ["manifest", file, "--url", server.url], online),
      await runJson(look, ["manifest", file, "--offline", "--tenant", "acme"], offline),
    ];
    const tests = [
      await runJson(policy, ["test", file, "--url", server.url], online),
      await runJson(policy, ["test", file, "--offline", "--tenant", "acme"], offline),
    ];

    for (const { code, answer } of plans) {
      assert.equal(code, 0);
      assert.equal(answer.threads_stopped, 1, JSON.stringify(answer));
      assert.deepEqual(
        (answer.tools as { name: string }[]).map(({ name }) => name),
        ["todo_write"],
      );
    }
    assert.deepEqual(
      tests.map(({ answer }) => [answer.calls, answer.denied]),
      [
        [1, 1],
        [1, 1],
      ],
    );
  });
});
