// SIGKILL of svc while tools wait for their servers: a durable run repeats a read, and asks a person about a call that may have happened.
import assert from "node:assert/strict";
import { test } from "node:test";
import { calls, inTurn, shown, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { faults, startFaultSite } from "../support/fault-site.ts";
import { cleanup } from "../support/temp.ts";

const at = (path: string) => `http://site.example${path}`;
/** Kinds of remote tools, with the call of the model and the path that gets it. */
const kinds = [
  ["reads", { http_tools: [{ name: "ask" }] }, ["ask", { url: at("/page") }], "/page"],
  ["posts", { http_tools: [{ name: "ask", methods: ["POST"] }] }, ["ask", { url: at("/page"), body: "x" }], "/page"],
  ["container", { containers: [{ name: "i", image: "i", gateway_url: at("") }] }, ["container__i", {}], "/run"],
  ["peer", { peers: [{ name: "site", url: at("/a2a") }] }, ["peer__site", { message: "go" }], "/a2a"],
  ["mcp", { mcp_servers: [{ name: "site", url: at("/mcp"), transport: "http" }] }, ["site__ask", {}], "/mcp"],
] as const;
const execution = { mode: "durable" };

test("DUR-008 calls of remote tools after SIGKILL are treated as their effect says", async (t) => {
  const atEnd = cleanup(t);
  const far = await startFaultSite(atEnd);
  const names = kinds.flatMap(([name]) => [name, `${name}-lasting`]);
  const { server, mock } = await startChatProcess(atEnd, {
    models: names,
    manifests: Object.fromEntries(
      kinds.flatMap(([name, spec]) => [
        [name, { ...spec, model: { id: name } }],
        [`${name}-lasting`, { ...spec, model: { id: `${name}-lasting` }, execution }],
      ]),
    ),
    env: { SVC_TEST_RESOLVE: JSON.stringify({ "site.example": `127.0.0.1:${far.site.port}` }) },
  });
  for (const [name, , call] of kinds)
    for (const model of [name, `${name}-lasting`]) mock.answer(model, inTurn(calls(call), { text: "Done." }));
  far.fault = faults.hangs;
  const tokens: string[] = [];
  for (const [name] of kinds) {
    server.post("/chat", turn(name, "go", { thread_id: name })).catch(() => {});
    const accepted = await server.post("/chat", turn(`${name}-lasting`, "go", { thread_id: `${name}-lasting` }));
    tokens.push(accepted.json.resume_token);
  }
  await eventually("each call is made", async () => far.broken.length === 2 * kinds.length);
  const keysOf = (path: string) =>
    far.site.requests
      .filter(({ url, method }) => url === path && method === "POST")
      .map(
        ({ headers, body }) =>
          headers["idempotency-key"] ?? /"(?:svc\/idempotency-key|messageId)":"([\w-]+)"/.exec(body)?.[1],
      )
      .filter((key) => key !== undefined);
  const before = new Map(kinds.map(([, , , path]) => [path, new Set(keysOf(path))]));

  await server.kill();
  far.fault = null;
  const asked = far.broken.length;
  await server.restart();
  // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
  const runWhen = (at: number, holds: (run: any) => boolean): Promise<any> =>
    eventually(`the durable run of ${kinds[at]?.[0]}`, async () => {
      const { json } = await server.get(`/runs/${tokens[at]}`);
      return holds(json) ? json : undefined;
    });

  for (const [index, [name, , , path]] of kinds.entries()) {
    const transcript = await eventually(`the end of the transient run of ${name}`, async () => {
      const { json } = await server.get(`/chat/sessions/${name}`);
      return json.phase === "running" ? undefined : json.transcript;
    });
    const results = transcript.filter(({ kind }: { kind: string }) => kind === "tool_result");
    assert.equal(results.length, 1, name);
    assert.match(results[0].content, /interrupted/, name);
    if (name !== "reads") {
      const { waiting_on } = await runWhen(index, ({ status }) => status === "waiting");
      const request = (await server.get(`/approvals/${waiting_on.id}`)).json;
      assert.deepEqual([request.rule_id, request.evidence.effect], ["outcome-unknown", "once"], name);
      await server.post(`/approvals/${waiting_on.id}/decide`, { decision: "approved" });
    }
    const ended = await runWhen(index, ({ status }) => status !== "waiting" && status !== "running");
    assert.deepEqual([ended.status, ended.final.content], ["completed", "Done."], name);
    const told = shown(mock.requests.findLast(({ model }) => model === `${name}-lasting`));
    assert.match(told.findLast(({ role }) => role === "tool")?.content ?? "", /fine/, name);
    // The repeated call has the key of the first one, so that a server that knows the key makes it once.
    assert.ok(
      keysOf(path).every((key) => before.get(path)?.has(key)),
      name,
    );
  }
  assert.equal(far.broken.length, asked);
});
