// Agents made of sub-agents: compilation, choice of agents, the client's frames, and shared limits.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, says, startChat, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type Behaviour, failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const models = ["boss", "a", "b", "c"] as const;
const chooses = (agent: string) => ({ text: [JSON.stringify({ agent })] });
const asks = { approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }] };
const member = (id: string, more: object = {}) => ({ model: { id }, tools: ["calculator"], ...more });

/** An event of a transcript; an event of a sub-agent contains its message. */
interface Item {
  readonly metadata: { readonly type?: string; readonly inner?: Inner } | null;
}
interface Inner {
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly { readonly id: string }[];
}

describe("agents made of others", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({
    one: {
      tenant_id: "one",
      scopes: ["chat:write", "chat:read", "usage:read", "audit:read", "manifests:write", "manifests:read"],
    },
    two: { tenant_id: "two", scopes: ["chat:write", "chat:read", "manifests:write", "manifests:read"] },
  });
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const of = (pattern: string, more: object = {}) => ({
      model: { id: "boss" },
      pattern,
      sub_agents: ["one-a", "one-b"],
      ...more,
    });
    ({ server, mock } = await startChat(atEnd, {
      models,
      manifests: {
        "one-a": member("a"),
        "one-b": member("b", { auth: { inbound: { required_scopes: ["nobody:has"] } } }),
        strict: member("c", { policies: [{ id: "no-sums", tools: ["calculator"], required_scopes: ["sums:do"] }] }),
        router: of("router"),
        parallel: of("parallel", { aggregator_prompt: "Take the longer one." }),
        chat: of("groupchat", { max_turns: 2 }),
        capped: of("parallel", { limits: { max_tool_calls: 1 } }),
        poor: of("parallel", { limits: { max_cost_usd: 0.07 } }),
        guarded: of("parallel", { sub_agents: ["one-a", "strict"] }),
        "gated-a": member("a", asks),
        "gated-b": member("b", asks),
        asking: of("parallel", { sub_agents: ["gated-a", "gated-b"] }),
        "asking-short": of("parallel", {
          sub_agents: ["gated-a", "gated-b", "strict"],
          limits: { max_wall_clock_seconds: 1 },
        }),
        "asking-chat": of("groupchat", { sub_agents: ["gated-a", "gated-b"] }),
        "asking-team": of("parallel", { sub_agents: ["asking", "strict"] }),
        shaped: of("router", {
          output_schema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
        }),
      },
      env,
    }));
  });

  const as = (key: keyof typeof keys = "one") => ({ key: keys[key] });
  const ask = (manifest: string, fields: object = {}) => server.post("/chat", turn(manifest, "go", fields), as());
  const streamed = async (manifest: string, fields: object = {}) =>
    (await server.stream("/chat/stream", turn(manifest, "go", fields), as())).rest();
  const askedOf = (model: string) => mock.requests.filter((request) => request.model === model);
  const wordsTo = (model: string, at = -1) => JSON.stringify(askedOf(model).at(at)?.body ?? {});
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
  const put = (name: string, spec: object, key: keyof typeof keys = "one") =>
    server.request("PUT", `/manifests/${name}`, { ...as(key), body: { manifest: { metadata: { name }, spec } } });
  const problems = async (name: string, spec: object, key: keyof typeof keys = "one") => {
    const { status, json } = await put(name, spec, key);
    return status === 422
      ? json.detail.map(({ type, loc, msg }: Record<string, unknown>) => `${type} ${loc} ${msg}`)
      : [];
  };

  test("PAT-007 PAT-014 a router hands the conversation to one sub-agent, which answers in its place", async () => {
    const count = script({ boss: [chooses("one-b")], b: [{ text: ["B ", "says."] }, { text: ["B again."] }] });

    const frames = await streamed("router", { thread_id: "route" });
    await ask("router", { thread_id: "route" });

    assert.equal(wordsOf(frames), "B says.");
    assert.deepEqual(count(), [2, 0, 2, 0]);
    const done = frames.findLast(({ name }) => name === "done")?.json.data;
    assert.equal(done.final.content, "B says.");
    assert.match(wordsTo("b"), /B says\./);
    const { transcript } = (await server.get("/chat/sessions/route", as())).json;
    const messages = transcript.filter(({ kind }: { kind: string }) => kind === "message");
    assert.deepEqual(
      messages.map(({ metadata }: { metadata: { agent?: string } }) => metadata.agent),
      [undefined, "one-b", undefined, "one-b"],
    );
    const { items } = (await server.get("/usage?thread_id=route", as())).json;
    const rows = items.map(({ model_id, manifest_id }: Record<string, string>) => `${manifest_id} ${model_id}`).sort();
    assert.deepEqual(rows, ["one-b b", "one-b b", "router boss", "router boss"]);
  });

  test("an unreadable choice or an unknown agent leads to the first sub-agent", async () => {
    for (const garbage of [{ text: ["Whoever."] }, chooses("nobody"), failure(400)]) {
      const count = script({ boss: [garbage], a: [{ text: ["A."] }] });

      const answer = await ask("router");

      assert.equal(answer.json.final.content, "A.");
      assert.equal(count()[2], 0);
    }
    const metrics = (await server.get("/metrics", as())).text;
    assert.match(metrics, /svc_router_choice_total\{[^}]*method="unmatched"[^}]*\} 3/);
  });

  test("a router's output_schema applies to the sub-agent that answers", async () => {
    script({ boss: [chooses("one-a")], a: [{ text: ["no"] }, { text: ['{"n":1}'] }] });

    const answer = await ask("shaped");

    assert.equal(answer.json.final.content, '{"n":1}');
  });

  test("PAT-008 PAT-013 all sub-agents of parallel run at the same time, and their answers are merged", async () => {
    const both = [gate(), gate()];
    const count = script({
      a: [says(both[0]?.opened ?? "", "A says.")],
      b: [says(both[1]?.opened ?? "", "B says.")],
      boss: [{ text: ["Both ", "say."] }],
    });
    const reading = streamed("parallel", { thread_id: "beside" });
    await eventually("both are asked", async () => count()[1] === 1 && count()[2] === 1);
    for (const { open } of both) open();

    const frames = await reading;

    assert.equal(wordsOf(frames), "Both say.");
    assert.deepEqual(count(), [1, 1, 1, 0]);
    for (const words of ["A says.", "B says.", "Take the longer one."])
      assert.ok(wordsTo("boss").includes(words), words);
    const { transcript } = (await server.get("/chat/sessions/beside", as())).json;
    assert.deepEqual(
      transcript.map(({ content }: { content: string }) => content).filter((content: string) => content !== ""),
      ["go", "Both say."],
    );
    script({ a: [{ text: ["A."] }], b: [{ text: ["B."] }], boss: [{ text: ["Next."] }] });
    await ask("parallel", { thread_id: "beside" });
    assert.ok(!wordsTo("boss").includes("A says."));
    assert.ok(!wordsTo("a").includes("Both say."));
  });

  test("a failed sub-agent is marked as failed, and the turn fails when all have", async () => {
    script({ a: [failure(400)], b: [{ text: ["B."] }], boss: [{ text: ["Only B."] }] });
    const one = await ask("parallel");
    assert.equal(one.json.final.content, "Only B.");
    assert.match(wordsTo("boss"), /\[one-a failed\]/);

    const count = script({ a: [failure(400)], b: [failure(400)] });
    const all = await ask("parallel");
    assert.equal(all.status, 502);
    assert.equal(count()[0], 0);
  });

  test("PAT-009 groupchat has rounds until max_turns or DONE, and each member reads the others", async () => {
    const count = script({
      a: [{ text: ["A one."] }, { text: ["A two."] }],
      b: [{ text: ["B one."] }, { text: ["B two."] }],
      boss: [{ text: ["We say."] }],
    });

    const frames = await streamed("chat");

    assert.equal(wordsOf(frames), "We say.");
    assert.deepEqual(count(), [1, 2, 2, 0]);
    assert.match(wordsTo("b", -2), /A one\./);
    assert.match(wordsTo("a"), /B one\./);
    assert.match(wordsTo("boss"), /A one\..*B one\..*A two\..*B two\./);
    const early = script({ a: [{ text: ["A."] }], b: [{ text: ["DONE"] }], boss: [{ text: ["Short."] }] });
    assert.equal((await ask("chat")).json.final.content, "Short.");
    assert.deepEqual(early(), [1, 1, 1, 0]);
  });

  test("each member is under its own policies, and all under the limits of their agent", async () => {
    const sum = inTurn(calls(["calculator", { expression: "1+1" }]), { text: ["Done."] });
    script({ a: [sum], b: [sum], c: [sum], boss: [{ text: ["All."] }] });

    const guarded = await streamed("guarded", { thread_id: "guarded" });
    const capped = await streamed("capped");

    const outputs = (frames: typeof guarded) =>
      frames
        .filter(({ name }) => name === "tool_end")
        .map(({ json }) => json.data.output)
        .sort();
    assert.match(outputs(guarded).join("\n"), /^2\ndenied by policy: no-sums/);
    assert.match(outputs(capped).join("\n"), /^2\ndenied by limits: max_tool_calls \(1\) reached/);
    const ids = capped.filter(({ name }) => name === "tool_start").map(({ json }) => json.data.id);
    assert.equal(new Set(ids).size, 2);
  });

  test("a limit that members use up together ends the turn in its words", async () => {
    const usage = { prompt_tokens: 20_000, completion_tokens: 1_000, total_tokens: 21_000 };
    script({ a: [{ text: ["A."], usage }], b: [{ text: ["B."], usage }], boss: [{ text: ["All."] }] });

    const answer = await ask("poor");

    assert.equal(answer.json.final.content, "run limit reached: max_cost_usd");
  });

  test("an abort stops all members", async () => {
    const never = new Promise<never>(() => {});
    const count = script({ a: [says("A", never)], b: [says("B", never)] });
    const stream = await server.stream("/chat/stream", turn("parallel", "go", { thread_id: "abort" }), as());
    await eventually("both are asked", async () => count()[1] === 1 && count()[2] === 1);

    await server.post("/chat/abort", { thread_id: "abort" }, as());
    const frames = await stream.rest();

    assert.equal(wordsOf(frames), "");
    assert.ok(frames.some(({ name }) => name === "aborted"));
    await eventually("no calls", async () => mock.requests.length > 0 && mock.connections >= 0);
    script({ a: [{ text: ["A."] }], b: [{ text: ["B."] }], boss: [{ text: ["After."] }] });
    assert.equal((await ask("parallel", { thread_id: "abort" })).json.final.content, "After.");
  });

  for (const [pattern, question, atWork] of [
    ["asking", 2, false],
    ["asking", 1, true],
    ["asking-chat", 1, false],
    ["asking-team", 2, true],
  ] as const)
    test(`an abort gives a result to each call of a member that waits: ${pattern}, ${atWork ? "live" : "suspended"}`, async () => {
      const never = new Promise<never>(() => {});
      const thread_id = `${pattern}-${atWork}`;
      let sums = 0;
      const sum = () => calls(["calculator", { expression: `${++sums}+${thread_id.length}` }]);
      script({ a: [sum], b: [question === 2 ? sum : says("B", never)], c: [says("C", never)] });
      const snapshot = async () => (await server.get(`/chat/sessions/${thread_id}`, as())).json;
      void server.post("/chat", turn(pattern, "go", { thread_id }), as()).catch(() => {});
      await eventually("the questions", async () => {
        const { transcript } = await snapshot();
        const opened = transcript.filter(({ metadata }: Item) => metadata?.type === "wait_opened");
        return opened.length === question || undefined;
      });
      const isAside = async () => /^svc_live_runs 0$/m.test((await server.get("/metrics", as())).text);
      if (!atWork) await eventually("a run that is put aside", async () => (await isAside()) || undefined);

      const { json } = await server.post("/chat/abort", { thread_id }, as());

      const inner = (await snapshot()).transcript.map(({ metadata }: Item) => metadata?.inner ?? {});
      const asked = inner.flatMap(({ tool_calls = [] }: Inner) => tool_calls.map(({ id }) => id));
      const answered = inner.flatMap(({ tool_call_id }: Inner) => tool_call_id ?? []);
      assert.equal(json.aborted, true);
      assert.equal(asked.length, question);
      assert.deepEqual(answered.toSorted(), asked.toSorted());
    });

  test("a run that its wall clock ends gives a result to each call of a waiting member", async () => {
    const never = new Promise<never>(() => {});
    script({
      a: [calls(["calculator", { expression: "7+7" }])],
      b: [calls(["calculator", { expression: "8+8" }])],
      c: [says("C", never)],
    });

    const frames = await streamed("asking-short", { thread_id: "short" });

    const { transcript } = (await server.get("/chat/sessions/short", as())).json;
    const inner = transcript.map(({ metadata }: Item) => metadata?.inner ?? {});
    const asked = inner.flatMap(({ tool_calls = [] }: Inner) => tool_calls.map(({ id }) => id));
    const answered = inner.flatMap(({ tool_call_id }: Inner) => tool_call_id ?? []);
    assert.equal(asked.length, 2);
    assert.deepEqual(answered.toSorted(), asked.toSorted());
    const gate = frames.find(({ name }) => name === "approval_required")?.json.data.approval_id;
    assert.ok(gate);
    assert.deepEqual(
      frames.slice(-1).map(({ name }) => name),
      ["[DONE]"],
    );
  });

  for (const [pattern, asks] of [
    ["router", { boss: [chooses("one-a"), chooses("one-b")], words: ["A.", "B again."], calls: [2, 1, 1, 0] }],
    [
      "parallel",
      { boss: [{ text: ["All."] }, { text: ["All again."] }], words: ["All.", "All again."], calls: [2, 2, 2, 0] },
    ],
    [
      "chat",
      { boss: [{ text: ["All."] }, { text: ["All again."] }], words: ["All.", "All again."], calls: [2, 4, 4, 0] },
    ],
  ] as const)
    test(`STEER-002 a follow-up to a ${pattern} is another turn of all of it, in the same stream and run`, async () => {
      const thread_id = `followed-${pattern}`;
      const { opened, open } = gate();
      const count = script({
        a: [says("A.", opened), { text: ["A again."] }],
        b: [{ text: [pattern === "router" ? "B again." : "B."] }],
        boss: asks.boss,
      });
      const stream = await server.stream("/chat/stream", turn(pattern, "go", { thread_id }), as());
      await eventually("the first is asked", async () => count()[1] === 1);
      const said = await server.post("/chat/steer", { thread_id, text: "And then?", kind: "follow_up" }, as());
      assert.equal(said.json.queued, "follow_up", said.text);
      open();

      const frames = await stream.rest();

      const told = frames.filter(({ name }) => ["follow_up", "done"].includes(name)).map(({ name }) => name);
      assert.deepEqual(told, ["follow_up", "done"]);
      assert.equal(frames.find(({ name }) => name === "done")?.json.data.final.content, asks.words[1]);
      assert.equal(wordsOf(frames), asks.words.join(""));
      assert.deepEqual(count(), asks.calls);
      const again = pattern === "router" ? "b" : "a";
      assert.match(wordsTo(again), /And then\?/);
      const { messages } = (await server.get(`/chat/history/${thread_id}`, as())).json;
      assert.deepEqual(
        messages.map(({ content }: { content: string }) => content),
        ["go", asks.words[0], "And then?", asks.words[1]],
      );
    });

  test("STEER-001 a steer to a parallel agent is read by the agent that merges the answers", async () => {
    const thread_id = "steered-parallel";
    const { opened, open } = gate();
    const count = script({ a: [says("A.", opened)], b: [{ text: ["B."] }], boss: [{ text: ["Short."] }] });
    const stream = await server.stream("/chat/stream", turn("parallel", "go", { thread_id }), as());
    await eventually("both are asked", async () => count()[1] === 1 && count()[2] === 1);
    await server.post("/chat/steer", { thread_id, text: "Be short.", kind: "steer" }, as());
    open();

    const frames = await stream.rest();

    assert.equal(frames.find(({ name }) => name === "done")?.json.data.final.content, "Short.");
    assert.match(wordsTo("boss"), /Be short\./);
    assert.equal(frames.filter(({ name }) => name === "steer").length, 1);
  });

  test("PAT-012 unknown names, cycles and more than four levels are refused when compiled", async () => {
    const router = (...sub_agents: string[]) => ({ pattern: "router", sub_agents });
    assert.match(
      (await problems("lost", router("one-a", "nobody-knows")))[0],
      /^unresolved spec,sub_agents,1 .*nobody-knows is not there/,
    );
    for (const level of [4, 3, 2, 1])
      assert.deepEqual(await problems(`level-${level}`, router(level === 4 ? "one-a" : `level-${level + 1}`)), []);
    assert.match(
      (await problems("level-0", router("one-a", "level-1")))[0],
      /^conflict spec,sub_agents,1 .*level-1 > level-2 > level-3 > level-4 > one-a is nested deeper than 4/,
    );
    assert.match(
      (await problems("level-4", router("level-2")))[0],
      /^conflict spec,sub_agents,0 .*level-2 > level-3 > level-4 is a circle/,
    );
    // Another tenant's manifests do not resolve.
    assert.match((await problems("foreign", router("level-4"), "two"))[0], /^unresolved/);
    assert.equal((await put("changed", router("level-2"))).status, 200);
    script({ a: [{ text: ["Deep down."] }] });
    assert.equal((await ask("changed")).json.final.content, "Deep down.");
    // Sub-agents are resolved again for each turn.
    assert.equal((await put("level-3", { model: { id: "b" } })).status, 200);
    script({ b: [{ text: ["Changed."] }] });
    assert.equal((await ask("changed")).json.final.content, "Changed.");
  });
});
