// spec.command_screening: commands of a tool that are refused, or wait for a person.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { tenant_id: "acme", sub: "ann", scopes: ["*"] },
  stranger: { tenant_id: "globex", sub: "stranger", scopes: ["*"] },
});
const base = { tools: ["calculator"] };
const screened = (fields: object = {}) => ({
  ...base,
  client_tools: [{ name: "run", args_schema: { type: "object", properties: { command: { type: "string" } } } }],
  command_screening: { enabled: true, target_tools: ["run"], ...fields },
});
const manifests = {
  guarded: screened(),
  ruled: screened({ rules: [{ pattern: "^make deploy", decision: "require_approval", reason: "a release" }] }),
  gated: { ...screened(), approvals: [{ id: "runs", tools: ["run"], ttl_seconds: 600 }] },
};

describe("command screening", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, { models: ["scripted"], manifests, env }));
  });

  const run = (manifest: string, thread_id: string, command: string) => {
    mock.answer("scripted", inTurn(calls(["run", { command }]), says("Done.")));
    return server.post("/chat", turn(manifest, "go", { thread_id }), { key: keys.ann });
  };
  const pending = (thread_id: string, rule = "") =>
    eventually("a pending approval", async () => {
      const { json } = await server.get(`/approvals?thread_id=${thread_id}`, { key: keys.ann });
      return json.items.find((row: { rule_id: string }) => row.rule_id.startsWith(rule));
    });
  const decide = (id: string, decision: object) => server.post(`/approvals/${id}/decide`, decision, { key: keys.ann });
  const resultOf = (): string => {
    const messages = mock.requests.at(-1)?.body.messages as readonly { role: string; content: string }[];
    return messages.findLast(({ role }) => role === "tool")?.content ?? "";
  };

  test("GOV-018 a destructive command is refused before it runs", async () => {
    const { status } = await run("guarded", "destroys", "nice -n 5 sh -c 'rm -rf /'");

    assert.equal(status, 200);
    assert.equal(resultOf(), "denied by command: command_screening: deletes a whole system or home folder");
  });

  test("APPR-016 APPR-013 a command that needs a decision is an approval with its finding, for 300 s", async () => {
    const answer = run("guarded", "pushes", "git push --force origin main");
    const row = await pending("pushes");

    assert.equal(row.rule_id, "command:force push rewrites remote history");
    assert.equal(row.reason, "command_screening: force push rewrites remote history");
    assert.deepEqual(row.args, { command: "git push --force origin main" });
    const left = new Date(row.expires_at).getTime() - new Date(row.created_at).getTime();
    assert.ok(left > 299_000 && left <= 301_000, String(left));
    assert.equal((await server.get(`/approvals/${row.approval_id}`, { key: keys.stranger })).status, 404);
    await decide(row.approval_id, { decision: "denied", note: "not today" });
    assert.equal((await answer).status, 200);
    assert.match(resultOf(), /^\[approval not today\] tool=run rule=command:force push/);
  });

  test("a rule of the manifest names its own reason", async () => {
    const answer = run("ruled", "deploys", "make deploy");
    const row = await pending("deploys");

    assert.equal(row.rule_id, "command:a release");
    await decide(row.approval_id, { decision: "denied" });
    assert.equal((await answer).status, 200);
  });

  test("an approved command still waits for the approval of its tool", async () => {
    const answer = run("gated", "both", "git push --force");
    const first = await pending("both", "command:");
    await decide(first.approval_id, { decision: "approved" });
    const second = await pending("both", "runs");

    assert.notEqual(second.approval_id, first.approval_id);
    await decide(second.approval_id, { decision: "denied" });
    assert.equal((await answer).status, 200);
    assert.match(resultOf(), /rule=runs/);
  });
});
