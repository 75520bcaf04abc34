// Escalation of unsure answers: which model is asked again, what the client reads, the cost, and the fate of the first
// answer.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { compileProblems, parseProblems, agent as spec } from "../manifests/support.ts";
import { calls, framesUntil, gate, inTurn, says, startChatProcess, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type Behaviour, failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const models = ["weak", "strong"] as const;
const long = "This is a whole answer, and there is nothing in it that anybody has to doubt.";
const hedged = "That is a good question; to be honest I\u2019m not sure what the answer to it would be.";
const strong = "The stronger one knows it.";
const usage = (tokens: number) => ({ prompt_tokens: tokens, completion_tokens: 100, total_tokens: tokens + 100 });

describe("SPEC-018 answers of low confidence", () => {
  const atEnd = cleanup();
  const scopes = [
    "chat:write",
    "chat:read",
    "usage:read",
    "audit:read",
    "manifests:write",
    "approvals:write",
    "approvals:read",
  ];
  const { env, keys } = apiKeys({
    one: { tenant_id: "one", scopes },
    two: { tenant_id: "two", scopes },
  });
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    const escalating = (fields: object = {}, more: object = {}) => ({
      tools: ["calculator"],
      model: { confidence_escalation: { enabled: true, escalate_to: "strong", ...fields } },
      ...more,
    });
    ({ server, mock } = await startChatProcess(atEnd, {
      models,
      manifests: {
        doubter: escalating(),
        terse: escalating({ min_response_chars: 0, low_confidence_markers: ["Perhaps"] }),
        deep: escalating({}, { pattern: "deep" }),
        poor: escalating({}, { limits: { max_cost_usd: 0.0005 } }),
        three: escalating({}, { recursion_limit: 3 }),
        brief: escalating({}, { recursion_limit: 1 }),
        shaped: escalating(
          {},
          { output_schema: { type: "object", properties: { n: { type: "string" } }, required: ["n"] } },
        ),
        unkeyed: escalating({ escalate_to: "claude-opus" }),
        single: escalating({}, { session: { follow_up_mode: "one-at-a-time" } }),
        fallen: {
          model: { fallbacks: ["strong"], confidence_escalation: { enabled: true, escalate_to: "strong" } },
        },
        off: { model: { confidence_escalation: { enabled: false, escalate_to: "strong" } } },
        gated: escalating({}, { approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }] }),
        parent: { pattern: "parallel", sub_agents: ["doubter"] },
      },
      env,
    }));
  });

  const as = { key: keys.one };
  const ask = (manifest: string, fields: object = {}) => server.post("/chat", turn(manifest, "go", fields), as);
  const streamed = async (manifest: string, fields: object = {}) =>
    (await server.stream("/chat/stream", turn(manifest, "go", fields), as)).rest();
  const askedOf = (model: string) => mock.requests.filter((request) => request.model === model);
  function script(answers: Partial<Record<(typeof models)[number], readonly Behaviour[]>>) {
    const before = Object.fromEntries(models.map((model) => [model, askedOf(model).length]));
    for (const [model, behaviours] of Object.entries(answers)) {
      const skipped = before[model] ?? 0;
      mock.answer(model, (request) => {
        const reply = behaviours[Math.min(request.earlier - skipped, behaviours.length - 1)] as Behaviour;
        return typeof reply === "function" ? reply(request) : reply;
      });
    }
    return () => models.map((model) => askedOf(model).length - (before[model] ?? 0));
  }
  const counted = async (name: string, ...labels: string[]) => {
    const { text } = await server.get("/metrics", as);
    const rows = text.split("\n").filter((row) => row.startsWith(name) && labels.every((label) => row.includes(label)));
    return rows.reduce((sum, row) => sum + Number(row.split(" ").at(-1)), 0);
  };
  const transcript = async (thread: string) => (await server.get(`/chat/sessions/${thread}`, as)).json.transcript;

  test("a hedged or short answer stays hidden, and the stronger model answers anew", async () => {
    const before = await counted("svc_model_switch_total", 'from="weak"', 'to="strong"', 'reason="low_confidence"');
    for (const [thread, first] of [
      ["hedged", hedged],
      ["short", "No."],
    ] as const) {
      const count = script({ weak: [{ text: [first] }], strong: [{ text: ["The stronger ", "one knows it."] }] });

      const frames = await streamed("doubter", { thread_id: thread });

      assert.equal(wordsOf(frames), strong);
      assert.deepEqual(count(), [1, 1]);
      assert.equal(frames.findLast(({ name }) => name === "done")?.json.data.final.content, strong);
      assert.ok(!JSON.stringify(frames).includes(first), thread);
      assert.ok(frames.some(({ json }) => json?.data?.phase === "held"));
      assert.ok(!JSON.stringify(askedOf("strong").at(-1)?.body).includes(first));
      assert.deepEqual(askedOf("strong").at(-1)?.body.messages, askedOf("weak").at(-1)?.body.messages);
      const said = (await transcript(thread)).filter(({ role }: { role: string }) => role === "assistant");
      assert.deepEqual(
        said.map(({ content, metadata }: Record<string, { model?: string }>) => [content, metadata?.model]),
        [[strong, "strong"]],
      );
    }
    const after = await counted("svc_model_switch_total", 'from="weak"', 'to="strong"', 'reason="low_confidence"');
    assert.equal(after - before, 2);
    assert.ok((await counted("svc_escalation_check_total", 'method="heuristic"', 'manifest_id="doubter"')) >= 2);
  });

  test("a confident answer is sent unchanged in one piece, without a second model", async () => {
    const count = script({ weak: [{ text: [long.slice(0, 30), long.slice(30)] }], strong: [{ text: [strong] }] });

    const frames = await streamed("doubter");

    assert.equal(wordsOf(frames), long);
    assert.equal(frames.filter(({ name }) => name === "text_delta").length, 1);
    assert.deepEqual(count(), [1, 0]);
  });

  test("markers are the manifest's, in any case; min_response_chars 0 fits any length", async () => {
    for (const [first, read] of [
      ["No.", "No."],
      [hedged, hedged],
      ["It is 4, PERHAPS.", strong],
    ] as const) {
      script({ weak: [{ text: [first] }], strong: [{ text: [strong] }] });
      assert.equal((await ask("terse")).json.final.content, read);
    }
    script({ weak: [{ text: ["Six."] }], strong: [{ text: [strong] }] });
    assert.equal((await ask("off")).json.final.content, "Six.");
  });

  test("both models run tools, share their results, and share the steps", async () => {
    const count = script({
      weak: [inTurn({ ...calls(["calculator", { expression: "6*7" }]), text: ["Look. "] }, { text: [hedged] })],
      strong: [calls(["calculator", { expression: "40+2" }]), { text: ["It is 42, and that is certain."] }],
    });

    const frames = await streamed("deep", { thread_id: "tools" });

    assert.equal(wordsOf(frames), "Look. It is 42, and that is certain.");
    assert.deepEqual(count(), [2, 2]);
    assert.equal(frames.filter(({ name }) => name === "tool_end").length, 2);
    assert.match(JSON.stringify(askedOf("strong")[askedOf("strong").length - 2]?.body), /6\*7[\s\S]*42/);
    const { items } = (await server.get("/usage?thread_id=one:tools", as)).json;
    assert.deepEqual(items.map(({ model_id }: { model_id: string }) => model_id).toSorted(), [
      "strong",
      "strong",
      "weak",
      "weak",
    ]);
    assert.ok(items.every(({ kind }: { kind: string }) => kind === "tokens"));

    const sum = calls(["calculator", { expression: "1" }]);
    const spent = script({ weak: [inTurn(sum, { text: [hedged] })], strong: [sum] });
    assert.equal((await ask("three")).json.stop_reason, "max_turns");
    assert.deepEqual(spent(), [2, 1]);
    // The stronger model gets at least one step.
    const least = script({ weak: [{ text: [hedged] }], strong: [sum] });
    assert.equal((await ask("brief")).json.stop_reason, "max_turns");
    assert.deepEqual(least(), [1, 1]);
  });

  test("the first answer is sent where the stronger model fails or is unavailable", async () => {
    const degraded = () => counted("svc_control_degraded_total", 'control="confidence_escalation"');
    const before = await degraded();
    const count = script({ weak: [{ text: [hedged] }], strong: [failure(400)] });
    const frames = await streamed("doubter", { thread_id: "stands" });
    assert.equal(wordsOf(frames), hedged);
    assert.deepEqual(count(), [1, 1]);
    assert.equal((await transcript("stands")).at(-1).metadata.model, "weak");

    const unpaid = script({ weak: [{ text: [hedged], usage: usage(150) }], strong: [{ text: [strong] }] });
    assert.equal((await ask("poor")).json.final.content, hedged);
    assert.deepEqual(unpaid(), [1, 0]);
    assert.equal(await degraded(), before + 2);

    script({ weak: [{ text: ["Well."] }] });
    assert.equal((await ask("unkeyed")).json.final.content, "Well.");
  });

  test("a stronger model that fails after its first words or tools ends the turn", async () => {
    script({ weak: [{ text: [hedged] }], strong: [calls(["calculator", { expression: "1" }]), failure(400)] });
    const { status, json } = await ask("doubter");
    assert.equal(status, 502);
    assert.equal(json.error, "model_provider_error");

    script({
      weak: [{ text: [hedged] }],
      strong: [
        says(
          "Half a ",
          Promise.reject(new Error("gone")).catch(() => {}),
        ),
      ],
    });
    assert.match(wordsOf(await streamed("doubter")), /^Half a /);
  });

  test("an answer with a schema is never too short, and its replacement fits the schema", async () => {
    for (const [n, read, asked] of [
      ["4", '{"n":"4"}', [1, 0]],
      ["I don't know", '{"n":"5"}', [1, 1]],
    ] as const) {
      const count = script({ weak: [{ text: [JSON.stringify({ n })] }], strong: [{ text: ['{"n":"5"}'] }] });
      assert.equal((await ask("shaped")).json.final.content, read);
      assert.deepEqual(count(), asked);
    }
  });

  test("a request for the stronger model gets it at once, short answers included", async () => {
    const count = script({ strong: [{ text: ["No."] }] });

    const frames = await streamed("doubter", { model: "strong" });

    assert.equal(wordsOf(frames), "No.");
    assert.deepEqual(count(), [0, 1]);
    assert.ok(!frames.some(({ json }) => json?.data?.phase === "held"));
  });

  test("a follow-up is a turn of its own: the first model answers, judged anew", async () => {
    const { opened, open } = gate();
    const count = script({
      weak: [{ text: [hedged] }, { text: [hedged] }, { text: [long] }],
      strong: [says("First. ", opened), { text: ["Second."] }],
    });
    const stream = await server.stream("/chat/stream", turn("single", "go", { thread_id: "follow" }), as);
    await framesUntil(stream, ({ name }) => name === "text_delta");
    for (const text of ["Two?", "Three?"])
      await server.post("/chat/steer", { thread_id: "follow", text, kind: "follow_up" }, as);
    open();

    await stream.rest();

    const said = (await transcript("follow")).filter(({ role }: { role: string }) => role === "assistant");
    assert.deepEqual(
      said.map(({ content }: { content: string }) => content),
      ["First. ", "Second.", long],
    );
    assert.deepEqual(count(), [3, 2]);
  });

  test("an answer of the stronger model as the first one's fallback is not judged", async () => {
    const count = script({ weak: [failure(400)], strong: [{ text: ["No."] }] });

    assert.equal((await ask("fallen")).json.final.content, "No.");

    assert.deepEqual(count(), [1, 1]);
  });

  test("an abort while the stronger model writes ends the turn with its words alone", async () => {
    const hold = new Promise<never>(() => {});
    script({ weak: [{ text: [hedged] }], strong: [says("So far. ", hold)] });
    const stream = await server.stream("/chat/stream", turn("doubter", "go", { thread_id: "abort" }), as);

    await eventually("an abort", async () => {
      if (askedOf("strong").length === 0) return undefined;
      const { json } = await server.post("/chat/abort", { thread_id: "abort" }, as);
      return json.aborted === true;
    });

    const frames = await stream.rest();
    assert.ok(["", "So far. "].includes(wordsOf(frames)));
    assert.ok(!JSON.stringify(frames).includes(hedged));
    assert.ok(frames.some(({ name }) => name === "aborted"));
  });

  test("a killed server resumes a waiting call of the stronger model", async () => {
    const count = script({
      weak: [{ text: [hedged] }],
      strong: [calls(["calculator", { expression: "6*7" }]), { text: ["No."] }],
    });
    const cut = ask("gated", { thread_id: "killed" }).catch(() => null);
    const { approval_id: id } = await eventually("a call that waits", async () => {
      // The run has begun by now; no live run means that its call has suspended it.
      const [asked] = (await server.get("/approvals?status=pending", as)).json.items;
      const { text } = await server.get("/metrics", as);
      return /^svc_live_runs 0$/m.test(text) ? asked : undefined;
    });
    await server.kill();
    await cut;
    await server.restart();

    await server.post(`/approvals/${id}/decide`, { decision: "approved" }, as);
    await eventually("the answer", async () => {
      const last = (await transcript("killed")).at(-1);
      return last.role === "assistant" && last.content === "No.";
    });

    assert.deepEqual(count(), [1, 2]);
  });

  test("a sub-agent's own manifest judges its answer, and side questions are not judged", async () => {
    const count = script({ weak: [{ text: [hedged] }, { text: ["Merged."] }], strong: [{ text: [strong] }] });
    const { json } = await ask("parent");
    assert.equal(json.final.content, "Merged.");
    assert.deepEqual(count(), [2, 1]);
    assert.match(JSON.stringify(askedOf("weak").at(-1)?.body), /The stronger one knows it\./);

    script({ weak: [{ text: [long] }] });
    await ask("doubter", { thread_id: "beside" });
    const beside = script({ weak: [{ text: ["No."] }] });
    const { json: aside } = await server.post("/chat/ask", { thread_id: "beside", question: "Well?" }, as);
    assert.match(JSON.stringify(aside), /No\./);
    assert.deepEqual(beside(), [1, 0]);
  });

  test("another tenant's manifest of the same name is its own", async () => {
    const two = { key: keys.two };
    const body = { manifest: { metadata: { name: "doubter" }, spec: { model: { id: "weak" } } } };
    assert.equal((await server.request("PUT", "/manifests/doubter", { ...two, body })).status, 200);
    const count = script({ weak: [{ text: [hedged] }], strong: [{ text: [strong] }] });

    const other = await server.post("/chat", turn("doubter", "go"), two);
    const own = await ask("doubter");

    assert.deepEqual([other.json.final.content, own.json.final.content], [hedged, strong]);
    assert.deepEqual(count(), [2, 1]);
  });

  test("field bounds hold, and impossible combinations fail to compile", () => {
    const of = (fields: object, more: object = {}) => ({
      model: { confidence_escalation: { enabled: true, escalate_to: "large", ...fields } },
      ...more,
    });
    assert.deepEqual(parseProblems(spec(of({ min_response_chars: -1 }))), [
      "out_of_range spec.model.confidence_escalation.min_response_chars",
    ]);
    assert.deepEqual(parseProblems(spec(of({ escalate_to: "" }))), [
      "conflict spec.model.confidence_escalation.enabled",
    ]);
    assert.deepEqual(compileProblems(of({})), []);
    const at = "spec.model.confidence_escalation.escalate_to";
    assert.deepEqual(compileProblems(of({ escalate_to: "nobody" })), [`unresolved ${at}`]);
    assert.deepEqual(compileProblems(of({ escalate_to: "small" })), [`conflict ${at}`]);
    assert.deepEqual(compileProblems(of({ escalate_to: "free" }, { limits: { max_cost_usd: 1 } })), [
      "conflict spec.limits.max_cost_usd",
    ]);
    assert.deepEqual(compileProblems(of({}, { auth: { outbound: { providers: ["openai"] } } })), [`conflict ${at}`]);
  });
});
