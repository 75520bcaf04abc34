// Deciders, the models that make choices for agents: their requests, the use of their choices, their cost, and their
// failures.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { compileProblems, parseProblems, agent as spec } from "../manifests/support.ts";
import { calls, inTurn, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import { type Behaviour, failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const models = ["boss", "a", "b", "strong", "verifier", "clef", "own-1", "jev-latest", "gpt-4.1-mini"] as const;
const long = "This is a whole answer, and there is nothing in it that anybody has to doubt.";

/** The answer of a deciding model. */
function decision(choice: string, confidence: number | null, probabilities: object | null = null, tokens = 1_000) {
  const answer = { type: "choice", choice, ...(confidence !== null && { confidence }), probabilities };
  return { model: "m", answers: { decision: answer }, usage: { input_tokens: tokens, output_tokens: 0 } };
}
const decides = (...of: Parameters<typeof decision>): Behaviour => jsonScript(200, decision(...of));
/** The same answer in the envelope of Workers AI. */
const enveloped = (...of: Parameters<typeof decision>): Behaviour =>
  jsonScript(200, { result: decision(...of), success: true, errors: [], messages: [] });

describe("deciders", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({
    one: { tenant_id: "one", scopes: ["chat:write", "chat:read", "usage:read"] },
  });
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const router = (id: string, more: object = {}) => ({
      pattern: "router",
      sub_agents: ["one-a", "one-b"],
      system_prompt: { inline: "Sums go to one-b." },
      decider: { id },
      ...more,
    });
    const escalating = (more: object = {}) => ({
      tools: ["calculator"],
      model: { id: "a", confidence_escalation: { enabled: true, escalate_to: "strong", decider: true } },
      decider: { id: "clef" },
      ...more,
    });
    const reflecting = (more: object = {}) => ({
      pattern: "reflect",
      model: { id: "a" },
      decider: { id: "own" },
      reflect: { decider: true, verifier_model: "verifier", criteria: "Politeness." },
      ...more,
    });
    const described = (id: string, description: string) => ({
      metadata: { description },
      spec: { model: { id } },
    });
    ({ server, mock } = await startChat(atEnd, {
      models: ["boss", "a", "b", "strong", "verifier"],
      providers: { workers_ai: { api_key: "cf-key" }, typesafe: { api_key: "ts-key" } },
      manifests: {
        "one-a": described("a", "Writes letters and poems."),
        "one-b": described("b", `Does sums and calculations. ${"x".repeat(300)}`),
        clef: router("clef"),
        jev: router("jev"),
        timid: router("clef", { decider: { id: "clef", min_confidence: 0.9 } }),
        words: router("keyword"),
        chat: router("chatty"),
        small: router("small-llm"),
        escalating: escalating(),
        poor: escalating({ limits: { max_cost_usd: 0.0014 } }),
        penniless: router("own", { limits: { max_cost_usd: 0.0006 } }),
        reflecting: reflecting(),
      },
      env: {
        ...env,
        SVC_DECISION_ROUTES: JSON.stringify({
          own: { provider: "typesafe", model: "own-1", price: { input: 1, output: 0 } },
          chatty: { provider: "llm", model: "verifier" },
        }),
      },
    }));
  });

  const as = { key: keys.one };
  const ask = (manifest: string, fields: object = {}) => server.post("/chat", turn(manifest, "go", fields), as);
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
    return (...of: readonly string[]) => of.map((model) => askedOf(model).length - (before[model] ?? 0));
  }
  const counted = async (name: string, ...labels: string[]) => {
    const { text } = await server.get("/metrics", as);
    const rows = text.split("\n").filter((row) => row.startsWith(name) && labels.every((label) => row.includes(label)));
    return rows.reduce((sum, row) => sum + Number(row.split(" ").at(-1)), 0);
  };
  const usageOf = async (thread: string) => (await server.get(`/usage?thread_id=one:${thread}`, as)).json.items;
  const agentOf = (json: Record<string, Record<string, Record<string, unknown>>>) => json.final?.content;

  test("SPEC-060 a router's decider is sent the message and agents, and its choice answers", async () => {
    const count = script({
      clef: [enveloped("one-b", 0.8, { "one-a": 0.1, "one-b": 0.9 })],
      b: [{ text: ["B says."] }],
      a: [{ text: ["Before."] }],
    });
    await server.post("/chat", turn("one-a", "m".repeat(2_000), { thread_id: "wire" }), as);

    const { json } = await server.post("/chat", turn("clef", "q".repeat(5_000), { thread_id: "wire" }), as);

    assert.equal(agentOf(json), "B says.");
    assert.deepEqual(count("boss", "clef", "a", "b"), [0, 1, 1, 1]);
    const { path, method, headers, body } = askedOf("clef").at(-1) as MockModel["requests"][number];
    assert.deepEqual([method, path, headers.authorization], ["POST", "/run/@cf/cloudflare/clef", "Bearer cf-key"]);
    assert.equal(headers.accept, "application/json");
    const { instructions, ...question } = (body.questions as Record<string, Record<string, unknown>>).decision ?? {};
    assert.match(String(instructions), /^Sums go to one-b\.[\s\S]*Choose which agent/);
    assert.deepEqual(
      { ...body, questions: question },
      {
        model: "clef",
        state: { message: "q".repeat(4_000), before: "Before." },
        questions: {
          type: "choice",
          criteria: {
            "one-a": "Writes letters and poems.",
            "one-b": `Does sums and calculations. ${"x".repeat(300)}`.slice(0, 200),
          },
        },
      },
    );
    assert.ok((await counted("svc_router_choice_total", 'manifest_id="clef"', 'method="decider"')) >= 1);
  });

  test("SPEC-060 each decision has its row of usage, and counts against max_cost_usd", async () => {
    script({
      clef: [enveloped("one-b", 1)],
      "own-1": [decides("one-a", 1, null, 700)],
      boss: [{ text: ['{"agent":"one-a"}'] }],
    });
    await ask("clef", { thread_id: "paid" });
    const rows = await usageOf("paid");
    const [row] = rows.filter(({ kind }: { kind: string }) => kind === "decider");
    assert.equal(rows.length, 2);
    assert.deepEqual(
      [row.model_id, row.wire_model_id, row.tokens_input, row.tokens_output, row.manifest_id],
      ["clef", "@cf/cloudflare/clef", 1_000, 0, "clef"],
    );
    assert.ok(Math.abs(row.cost_usd - 0.00024) < 1e-9);

    const { json } = await ask("penniless");
    assert.match(json.final.content, /run limit reached: max_cost_usd/);
  });

  test("jev and an operator's decider are called by their protocol, without an envelope", async () => {
    script({
      "jev-latest": [decides("one-b", 1)],
      "own-1": [decides("good", 1, { good: 1 })],
      b: [{ text: ["B."] }],
      a: [{ text: ["A."] }],
    });
    assert.equal(agentOf((await ask("jev")).json), "B.");
    await ask("reflecting");
    for (const [wire, model] of [
      ["jev-latest", "jev-latest"],
      ["own-1", "own-1"],
    ] as const) {
      const { path, headers, body } = askedOf(wire).at(-1) as MockModel["requests"][number];
      assert.deepEqual([path, headers.authorization, body.model], ["/v1/systemone", "Bearer ts-key", model]);
    }
  });

  test("SPEC-059 a decision below min_confidence is ignored: the router's own model chooses", async () => {
    const boss = [{ text: ['{"agent":"one-a"}'] }];
    for (const [manifest, confidence, said, method] of [
      ["clef", 0.49, "A.", "decider_unsure"],
      ["clef", 0.5, "B.", "decider"],
      ["timid", 0.89, "A.", "decider_unsure"],
      ["timid", 0.9, "B.", "decider"],
      ["timid", null, "B.", "decider"],
    ] as const) {
      const count = script({
        clef: [enveloped("one-b", confidence)],
        boss,
        a: [{ text: ["A."] }],
        b: [{ text: ["B."] }],
      });
      const before = await counted("svc_router_choice_total", `manifest_id="${manifest}"`, `method="${method}"`);

      const { json } = await ask(manifest);

      assert.equal(agentOf(json), said, `${manifest} ${confidence}`);
      assert.deepEqual(count("clef", "boss"), [1, method === "decider" ? 0 : 1]);
      assert.equal(
        await counted("svc_router_choice_total", `manifest_id="${manifest}"`, `method="${method}"`),
        before + 1,
      );
    }
  });

  test("a decider that fails or answers unusably is skipped and counted", async () => {
    const result = (body: unknown) => jsonScript(200, body);
    for (const [broken, outcome] of [
      [failure(400), "error"],
      [result({ success: false, errors: [{ code: 7009, message: "No." }], result: null }), "error"],
      [enveloped("one-c", 1), "invalid"],
      [enveloped("__proto__", 1), "invalid"],
      [result({ result: { answers: {} }, success: true }), "invalid"],
      [result({ answers: { decision: { type: "noul", noul: 0.5 } } }), "invalid"],
    ] as const) {
      const before = await counted("svc_decisions_total", 'decider="clef"', 'purpose="router"', `outcome="${outcome}"`);
      script({ clef: [broken], boss: [{ text: ['{"agent":"one-b"}'] }], b: [{ text: ["B."] }] });

      assert.equal(agentOf((await ask("clef")).json), "B.");

      const after = await counted("svc_decisions_total", 'decider="clef"', 'purpose="router"', `outcome="${outcome}"`);
      assert.equal(after, before + 1);
    }
    assert.ok((await counted("svc_router_choice_total", 'method="decider_error"')) >= 6);
  });

  test("invalid probabilities are ignored", async () => {
    for (const [confidence, probabilities] of [
      [7, { good: 0.9 }],
      [-1, { good: 9 }],
      [1, { good: "0.9" }],
    ] as const) {
      const answer = { type: "choice", choice: "good", confidence, probabilities };
      const count = script({
        "own-1": [jsonScript(200, { answers: { decision: answer }, usage: { input_tokens: -5, output_tokens: 1e99 } })],
        a: [{ text: ["Mine."] }],
      });

      const { json } = await ask("reflecting", { thread_id: "odd" });

      assert.equal(agentOf(json), "Mine.");
      assert.deepEqual(count("own-1", "a", "verifier"), [1, 1, 0]);
    }
    for (const row of await usageOf("odd"))
      assert.ok(row.tokens_input > 0 && row.tokens_output < 1_000, JSON.stringify(row));
  });

  test("keyword matches words of agents' descriptions without a model, or is unsure", async () => {
    const of = (text: string) => server.post("/chat", turn("words", text), as);
    const count = script({ boss: [{ text: ['{"agent":"one-a"}'] }], a: [{ text: ["A."] }], b: [{ text: ["B."] }] });

    assert.equal(agentOf((await of("I need some calculations")).json), "B.");
    assert.equal(agentOf((await of("Poems, please")).json), "A.");
    assert.deepEqual(count("boss"), [0]);
    assert.equal(agentOf((await of("Hello")).json), "A.");
    assert.deepEqual(count("boss"), [1]);
  });

  test("a chat model decides without confidence, with one repair; its rows say decider", async () => {
    const count = script({
      verifier: [{ text: ["The second."] }, { text: ['{"choice":"one-b"}'] }],
      boss: [{ text: ['{"choice":"one-b"}'] }],
      b: [{ text: ["B."] }],
    });
    assert.equal(agentOf((await ask("chat", { thread_id: "chatty" })).json), "B.");
    assert.deepEqual(count("verifier", "boss"), [2, 0]);
    const kinds = (await usageOf("chatty")).map(({ model_id, kind }: Record<string, string>) => `${model_id} ${kind}`);
    assert.deepEqual(kinds.toSorted(), ["b tokens", "verifier decider", "verifier decider"]);

    // The provider of the default model offers this small model for decisions.
    script({ "gpt-4.1-mini": [{ text: ['{"choice":"one-a"}'] }], a: [{ text: ["A."] }] });
    assert.equal(agentOf((await ask("small")).json), "A.");
    const [format] = [askedOf("gpt-4.1-mini").at(-1)?.body.response_format] as [{ json_schema: { schema: unknown } }];
    assert.match(JSON.stringify(format), /"choice"[\s\S]*"one-a"/);

    const unread = script({
      verifier: [{ text: ["?"] }],
      boss: [{ text: ['{"agent":"one-a"}'] }],
      a: [{ text: ["A."] }],
    });
    assert.equal(agentOf((await ask("chat")).json), "A.");
    assert.deepEqual(unread("verifier", "boss"), [2, 1]);
  });

  test("SPEC-018 SPEC-060 a decider replaces markers and length, which apply if it is unsure or fails", async () => {
    const hedged = "I don't know whether that is what anybody would want to hear of me.";
    for (const [first, answer, read, method] of [
      [long, enveloped("doubtful", 0.9), "Strong.", "decider"],
      ["Short.", enveloped("sure", 0.9), "Short.", "decider"],
      [hedged, enveloped("sure", 0.9), hedged, "decider"],
      [long, enveloped("doubtful", 0.2), long, "decider_unsure"],
      [hedged, enveloped("sure", 0.2), "Strong.", "decider_unsure"],
      ["Short.", failure(400), "Strong.", "decider_error"],
    ] as const) {
      const count = script({ a: [{ text: [first] }], strong: [{ text: ["Strong."] }], clef: [answer] });
      const before = await counted("svc_escalation_check_total", 'manifest_id="escalating"', `method="${method}"`);

      const { json } = await ask("escalating");

      assert.equal(json.final.content, read, `${first} ${method}`);
      assert.deepEqual(count("clef", "strong"), [1, read === "Strong." ? 1 : 0]);
      const after = await counted("svc_escalation_check_total", 'manifest_id="escalating"', `method="${method}"`);
      assert.equal(after, before + 1);
    }
  });

  test("the decider of an escalation gets the reply and neither tools nor their results", async () => {
    script({
      a: [inTurn(calls(["calculator", { expression: "6*7" }]), { text: [`${long} 42. ${"y".repeat(5_000)}`] })],
      clef: [enveloped("sure", 1)],
    });

    await ask("escalating");

    const { state, questions } = (askedOf("clef").at(-1) as MockModel["requests"][number]).body as {
      state: Record<string, string>;
      questions: object;
    };
    assert.deepEqual(Object.keys(state), ["message", "reply"]);
    assert.deepEqual([state.message, state.reply?.length], ["go", 4_000]);
    assert.match(JSON.stringify(questions), /"sure"[\s\S]*"doubtful"/);
    assert.doesNotMatch(JSON.stringify(askedOf("clef").at(-1)?.body), /6\*7/);
  });

  test("a decision reserves money first, and is skipped when none is left", async () => {
    const usage = { prompt_tokens: 100, completion_tokens: 150, total_tokens: 250 };
    const count = script({
      a: [{ text: [long], usage }],
      clef: [enveloped("doubtful", 1)],
      strong: [{ text: ["Strong."] }],
    });

    const { json } = await ask("poor");

    assert.equal(json.final.content, long);
    assert.deepEqual(count("clef", "strong"), [0, 0]);
  });

  test("SPEC-062 SPEC-060 the decider scores for reflect by its probability; unsure asks the verifier", async () => {
    const good = (p: number, confidence: number) =>
      decides(p >= 0.5 ? "good" : "poor", confidence, { good: p, poor: 1 - p });
    const count = script({
      a: [{ text: ["One."] }, { text: ["Two."] }],
      "own-1": [good(0.1, 0.8), good(0.95, 0.9)],
    });
    const { json } = await ask("reflecting", { thread_id: "judged" });
    assert.equal(json.final.content, "Two.");
    assert.deepEqual(count("a", "own-1", "verifier"), [2, 2, 0]);
    const { transcript } = (await server.get("/chat/sessions/judged", as)).json;
    assert.deepEqual(transcript.at(-1).metadata.reflect, { iterations: 2, score: 0.95 });
    assert.match(JSON.stringify(askedOf("a").at(-1)?.body), /One\.[\s\S]*Politeness\./);
    assert.match(JSON.stringify(askedOf("own-1").at(-1)?.body), /Politeness\./);

    const unsure = script({
      a: [{ text: ["Mine."] }],
      "own-1": [good(0.6, 0.2)],
      verifier: [{ text: ['{"score":1,"feedback":""}'] }],
    });
    assert.equal((await ask("reflecting")).json.final.content, "Mine.");
    assert.deepEqual(unsure("own-1", "verifier"), [1, 1]);

    const lengthy = script({ a: [{ text: ["z".repeat(8_001)] }], verifier: [{ text: ['{"score":1,"feedback":""}'] }] });
    await ask("reflecting");
    assert.deepEqual(lengthy("own-1", "verifier"), [0, 1]);
  });

  test("the same question is asked once in a run", async () => {
    const count = script({ a: [{ text: ["Same."] }], "own-1": [decides("poor", 1, { good: 0, poor: 1 })] });

    assert.equal((await ask("reflecting")).json.final.content, "Same.");

    assert.deepEqual(count("a", "own-1"), [2, 1]);
  });

  test("an abort during a decision ends the turn", async () => {
    const hold = new Promise<never>(() => {});
    script({ clef: [says("", hold)] });
    const stream = await server.stream("/chat/stream", turn("clef", "go", { thread_id: "abort" }), as);
    await eventually("an abort", async () => {
      const { json } = await server.post("/chat/abort", { thread_id: "abort" }, as);
      return json.aborted === true;
    });

    assert.ok((await stream.rest()).some(({ name }) => name === "aborted"));
  });

  test("SPEC-059 the fields of a decider are checked when the manifest is compiled", () => {
    assert.deepEqual(parseProblems(spec({ decider: { min_confidence: 1.1 } })), [
      "out_of_range spec.decider.min_confidence",
    ]);
    assert.deepEqual(compileProblems({ decider: { id: "nobody" } }), ["unresolved spec.decider.id"]);
    assert.deepEqual(compileProblems({ decider: { id: "sure", min_confidence: 0 } }), []);
    assert.deepEqual(compileProblems({ decider: { id: "sure" }, auth: { outbound: { providers: ["openai"] } } }), [
      "conflict spec.decider.id",
    ]);
    assert.deepEqual(compileProblems({ decider: { id: "free" }, limits: { max_cost_usd: 1 } }), [
      "conflict spec.limits.max_cost_usd",
    ]);
    const escalation = { enabled: true, escalate_to: "large", decider: true };
    assert.deepEqual(
      compileProblems({
        decider: { id: "keyword" },
        reflect: { decider: true },
        model: { confidence_escalation: escalation },
      }),
      ["conflict spec.model.confidence_escalation.decider", "conflict spec.reflect.decider"],
    );
  });
});
