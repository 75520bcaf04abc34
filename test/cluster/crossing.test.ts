// A process of its own: its hosts are processes that a test kills.
// Two hosts of one deployment: requests to either work for every thread.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, framesUntil, gate, inTurn, says, startMock, turn } from "../support/chat.ts";
import { hasRedis, hostIdOf, testCluster, threadsOn } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import type { MockModel } from "../support/mock-model.ts";
import { type OtlpCollector, type ReceivedSpan, startCollector } from "../support/otlp-collector.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const skip = (await hasRedis()) ? false : "needs a Redis";

describe("two hosts of a deployment", { skip }, () => {
  const atEnd = cleanup();
  const scopes = [
    "chat:write",
    "chat:read",
    "runs:read",
    "runs:write",
    "approvals:read",
    "manifests:read",
    "manifests:write",
  ];
  const { env: keyEnv, keys } = apiKeys({
    one: { tenant_id: "one", scopes },
    approver: { tenant_id: "one", scopes: ["approvals:write"] },
  });
  const as = { key: keys.one };
  let mock: MockModel;
  let collector: OtlpCollector;
  let left: ProcessServer;
  let right: ProcessServer;
  /** The hosts by id. */
  let ids: { left: string; right: string };
  before(async () => {
    const of = (model: string, more: object = {}) => ({ model: { id: model }, tools: ["calculator"], ...more });
    collector = await startCollector(atEnd);
    const { mock: made, env } = await startMock(atEnd, {
      models: ["plain", "slow", "steered", "gated", "durable", "old-model", "new-model"],
      manifests: {
        plain: of("plain"),
        slow: of("slow"),
        steered: of("steered"),
        gated: of("gated", { approvals: [{ id: "sums", tools: ["calculator"] }] }),
        durable: of("durable", { execution: { mode: "durable" } }),
      },
      env: { ...keyEnv, SVC_OTEL_ENDPOINT: collector.url, SVC_OTEL_TRUST_PARENT: "true" },
    });
    mock = made;
    const cluster = await testCluster(atEnd, { env });
    [left, right] = (await cluster.hosts(2)) as [ProcessServer, ProcessServer];
    ids = { left: await hostIdOf(left, keys.one), right: await hostIdOf(right, keys.one) };
  });

  const threadOn = (side: "left" | "right", prefix: string): string =>
    threadsOn(ids[side], Object.values(ids), "one", prefix).next().value as string;

  test("hosts list each other with their duties", async () => {
    const { items } = (await right.get("/hosts", as)).json;

    assert.deepEqual(
      items
        .map(({ name, mode, self, draining, differs }: Record<string, unknown>) => ({
          name,
          mode,
          self,
          draining,
          differs,
        }))
        .sort((a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1)),
      [
        { name: "host-1", mode: "cluster", self: false, draining: false, differs: [] },
        { name: "host-2", mode: "cluster", self: true, draining: false, differs: [] },
      ],
    );
  });

  test("a turn that one host takes runs where its thread is, and both read it", async () => {
    mock.answer("plain", { text: "Blue." });
    for (const side of ["left", "right"] as const) {
      const thread_id = threadOn(side, "turn");
      const first = await left.post("/chat", turn("plain", "go", { thread_id }), as);
      const second = await right.post("/chat", turn("plain", "again", { thread_id }), as);
      const seen = await Promise.all([left, right].map((each) => each.get(`/chat/sessions/${thread_id}`, as)));

      assert.deepEqual([first.status, second.status], [200, 200], first.text + second.text);
      for (const { json } of seen)
        assert.deepEqual(
          json.transcript
            .filter(({ kind }: { kind: string }) => kind === "message")
            .map((each: { content: string }) => each.content),
          ["go", "Blue.", "again", "Blue."],
        );
    }
  });

  test("STEER-007 a stream, a listener and a steer work through the host that has no actor of the thread", async () => {
    const held = gate();
    mock.answer("steered", says("Let me see.", held.opened), { text: "Blue." });
    const thread_id = threadOn("right", "steered");
    const stream = await left.stream("/chat/stream", turn("steered", "go", { thread_id }), as);
    const listener = await left.listen(`/chat/stream/${thread_id}`, as);
    const there = await right.listen(`/chat/stream/${thread_id}`, as);
    await framesUntil(stream, ({ name }) => name === "text_delta");

    const answer = await left.post("/chat/steer", { thread_id, text: "Make it blue." }, as);
    held.open();
    const frames = await stream.rest();
    const heard = await framesUntil(listener, ({ name }) => name === "steer");
    const heardThere = await framesUntil(there, ({ name }) => name === "steer");

    assert.equal(answer.json.queued, "steer");
    assert.equal(frames.filter(({ name }) => name === "done").length, 1);
    assert.ok(heard.some(({ name }) => name === "text_delta"));
    assert.ok(heardThere.length > 0);
  });

  test("a running turn is aborted through the other host", async () => {
    const held = gate();
    mock.answer("slow", says("Let me see.", held.opened));
    const thread_id = threadOn("right", "aborted");
    const stream = await right.stream("/chat/stream", turn("slow", "go", { thread_id }), as);
    await framesUntil(stream, ({ name }) => name === "text_delta");

    const answer = await left.post("/chat/abort", { thread_id }, as);
    const frames = await stream.rest();
    held.open();

    assert.deepEqual([answer.status, answer.json.aborted], [200, true], answer.text);
    assert.equal(frames.filter(({ name }) => name === "done").length, 1);
  });

  test("an approval is decided through the host that has no actor of the thread", async () => {
    for (const side of ["left", "right"] as const) {
      // A granted approval covers equal calls.
      const sum = ["calculator", { expression: side === "left" ? "1+1" : "2+0" }] as const;
      mock.answer("gated", inTurn(calls(sum), { text: "Two." }));
      const thread_id = threadOn(side, "gated");
      const stream = await right.stream("/chat/stream", turn("gated", "go", { thread_id }), as);
      const { json } = await stream.until("approval_required");
      const { approval_id } = json.data;

      const decided = await left.post(
        `/approvals/${approval_id}/decide`,
        { decision: "approved" },
        { key: keys.approver },
      );
      const frames = await stream.rest();

      assert.equal(decided.status, 200, decided.text);
      assert.match(JSON.stringify(frames), /Two\./);
    }
  });

  test("the spans of a turn at two hosts are one trace", async () => {
    mock.answer("plain", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "42." }));
    for (const [at, side] of (["left", "right"] as const).entries()) {
      const trace_id = String(at + 1).repeat(32);
      const headers = { traceparent: `00-${trace_id}-${"b".repeat(16)}-01` };
      const { status, text } = await left.post("/chat", turn("plain", "go", { thread_id: threadOn(side, "traced") }), {
        ...as,
        headers,
      });
      assert.equal(status, 200, text);
      const names = ["POST /chat", "invoke_agent plain", "chat plain", "execute_tool calculator"];
      const spans = await eventually(`the spans at the ${side}`, async () => {
        const found = names.map((name) =>
          collector.spans.find((each) => each.trace_id === trace_id && each.name === name),
        );
        return found.every((span) => span !== undefined) && found;
      });

      const [request, run, ...inside] = spans as [ReceivedSpan, ReceivedSpan, ...ReceivedSpan[]];
      assert.equal(request.parent_span_id, "b".repeat(16));
      assert.equal(run.parent_span_id, request.span_id);
      for (const { parent_span_id } of inside) assert.equal(parent_span_id, run.span_id);
      const hosts = [request, run].map(({ resource }) => resource["service.instance.id"]);
      assert.equal(hosts[0] === hosts[1], side === "left", `${hosts}`);
    }
  });

  test("GET /events at each host has the news of runs at both", async () => {
    mock.answer("durable", { text: "Done." });
    const streams = await Promise.all([left, right].map((host) => host.listen("/events", as)));
    const threads = (["left", "right"] as const).map((side) => threadOn(side, "news"));
    for (const thread_id of threads) {
      const { status, text } = await left.post("/chat", turn("durable", "go", { thread_id }), as);
      assert.equal(status, 202, text);
    }

    for (const stream of streams) {
      const open = new Set(threads.map((thread_id) => `one:${thread_id}`));
      for await (const { name, json } of stream) {
        if (name !== "news") continue;
        for (const { kind, thread_id, status } of json.data.news)
          if (kind === "run_status" && status === "completed") open.delete(thread_id);
        if (open.size === 0) break;
      }
      assert.equal(open.size, 0);
      stream.close();
    }
  });

  test("LEASE-008 the lease of a client of one host excludes clients of the other", async () => {
    const thread_id = threadOn("right", "leased");
    mock.answer("plain", { text: "Blue." });
    await left.post("/chat", turn("plain", "go", { thread_id }), as);
    const lease = await left.post("/chat/sessions/lease", { thread_id, holder_id: "one" }, as);
    const other = await right.post("/chat/sessions/lease", { thread_id, holder_id: "two" }, as);

    assert.equal(lease.status, 200, lease.text);
    assert.equal(other.status, 409, other.text);
  });

  test("a request that is repeated at the other host is answered once", async () => {
    mock.answer("plain", { text: "Blue." });
    const thread_id = threadOn("left", "repeated");
    const headers = { "idempotency-key": "again" };
    const body = turn("plain", "go", { thread_id });
    const before = mock.requests.length;
    const answers = [
      await right.post("/chat", body, { ...as, headers }),
      await left.post("/chat", body, { ...as, headers }),
    ];

    assert.deepEqual(
      answers.map(({ status, headers }) => [status, headers["idempotent-replayed"]]),
      [
        [200, undefined],
        [200, "true"],
      ],
    );
    assert.equal(answers[0]?.text, answers[1]?.text);
    assert.equal(mock.requests.length - before, 1);
  });

  test("a durable run is accepted by one host, and followed and read at the other", async () => {
    mock.answer("durable", { text: "Done." });
    for (const side of ["left", "right"] as const) {
      const thread_id = threadOn(side, "durable");
      const accepted = await left.post("/chat", turn("durable", "go", { thread_id }), as);
      assert.equal(accepted.status, 202, accepted.text);
      const { resume_token } = accepted.json;
      const row = await eventually("the end of the run", async () => {
        const { json } = await right.get(`/chat/runs/${resume_token}`, as);
        return json.status === "completed" && json;
      });

      assert.match(JSON.stringify(row), /Done\./);
    }
  });

  test("a manifest that is stored at one host is used by the other within a second", async () => {
    const manifest = (model: string) => ({ metadata: { name: "changing" }, spec: { model: { id: model } } });
    for (const model of ["old-model", "new-model", "old-model"]) {
      mock.answer(model, { text: `this is ${model}` });
      const stored = await left.request("PUT", "/manifests/changing", { ...as, body: { manifest: manifest(model) } });
      assert.ok(stored.status < 300, stored.text);
      const startedAt = performance.now();
      await eventually(`the answers of ${model}`, async () => {
        const answers = await Promise.all([left, right].map((each) => each.post("/chat", turn("changing", "go"), as)));
        return answers.every(({ text }) => text.includes(model));
      });
      assert.ok(performance.now() - startedAt < 2_000);
    }
  });
});
