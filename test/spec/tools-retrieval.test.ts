// spec.tools_retrieval: the tools that the model is shown, and tools_max of a model route.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import type { MockModel } from "../support/mock-model.ts";
import { callsOfAgent } from "../support/model-calls.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ ann: { scopes: ["*"] }, stranger: { tenant_id: "globex", scopes: ["*"] } });

/** Tools that a client carries out; each has a topic of its own. */
const topics = ["invoice", "weather", "flight", "recipe", "calendar", "translation"];
const clientTools = [
  ...topics.map((topic) => ({ name: `${topic}_lookup`, description: `Finds one ${topic} by its name.` })),
  ...Array.from({ length: 23 }, (_, at) => ({ name: `filler_${at}`, description: `Does the thing number ${at}.` })),
];
const tools = ["calculator"];
const base = { client_tools: clientTools, tools };
const on = (more: object = {}) => ({ ...base, tools_retrieval: { enabled: true, top_k: 3, ...more } });

const manifests = {
  whole: base,
  chosen: { ...base, tools_retrieval: { enabled: true } },
  few: on(),
  deep: { ...on(), pattern: "deep" },
  planner: { ...on(), pattern: "plan_execute" },
  kept: { ...on(), artifacts: { enabled: true } },
  narrow: { ...on({ top_k: 8 }), model: { id: "narrow" } },
  likened: { ...on({ top_k: 2, model: "meanings" }), model: { id: "scripted" } },
  deciding: { ...on({ top_k: 1, decider: true }), decider: { id: "chat" } },
  catalog: { tools_retrieval: { enabled: true } },
  durable: {
    ...on(),
    execution: { mode: "durable" },
    approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }],
  },
};

/** An embedding model in which a ship is like a flight. */
function meanings(body: Readonly<Record<string, unknown>>) {
  const inputs = body.input as readonly string[];
  const alike = [/ship|flight/i, /rain|weather/i];
  const data = inputs.map((text, index) => ({
    object: "embedding",
    index,
    embedding: [...alike.map((topic) => (topic.test(text) ? 1 : 0)), 0.01],
  }));
  const usage = { prompt_tokens: inputs.length, total_tokens: inputs.length };
  return jsonScript(200, { object: "list", data, model: body.model, usage });
}

describe("tools_retrieval", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests,
      routes: {
        narrow: { provider: "openai", model: "scripted", tools_max: 5 },
        meanings: { provider: "openai", model: "meanings", kind: "embedding" },
      },
      env: {
        ...env,
        SVC_MEMORY_EMBEDDER: "none",
        SVC_PLUGINS: "./test/support/reports-plugin.ts",
        SVC_DECISION_ROUTES: JSON.stringify({ chat: { provider: "llm", model: "scripted" } }),
      },
    }));
    mock.answer("meanings", ({ body }) => meanings(body));
  });

  const as = { key: keys.ann };
  async function say(manifest: string, text: string, fields: object = {}) {
    const { status, json, text: body } = await server.post("/chat", turn(manifest, text, fields), as);
    return { status, json, body };
  }
  /** Names of the tools in each request to the chat model since `from`. */
  const offered = (from = 0): string[][] =>
    mock.requests.slice(from).flatMap(({ path, body }) => {
      const list = (body.tools ?? []) as readonly { function: { name: string } }[];
      return path.endsWith("/completions") ? [list.map((tool) => tool.function.name)] : [];
    });
  const last = (): string[] => offered().at(-1) ?? [];

  test("SPEC-058 of thirty tools a model is shown twenty, in the order of the manifest", async () => {
    mock.answer("scripted", says("Hello."));
    await say("whole", "What is the weather?");
    const all = last();
    await say("chosen", "What is the weather?");
    const chosen = last();

    assert.equal(all.length, 30);
    assert.equal(chosen.length, 20);
    assert.ok(chosen.includes("weather_lookup"));
    assert.deepEqual(
      chosen,
      all.filter((name) => chosen.includes(name)),
    );
  });

  test("SPEC-058 the tools are chosen by the words of a message, once for each message", async () => {
    const from = mock.requests.length;
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "1 + 1" }]), { text: "Two." }));
    await say("few", "Find my calculator, an invoice and a recipe.", { thread_id: "words" });
    const [first, second] = offered(from);
    mock.answer("scripted", says("Hello."));
    await say("few", "Weather and calendar, in translation?", { thread_id: "words" });
    const next = last();

    assert.deepEqual(first, ["calculator", "invoice_lookup", "recipe_lookup"]);
    assert.deepEqual(second, first, "every call of a turn is shown the same tools");
    assert.deepEqual(next, ["calculator", "weather_lookup", "calendar_lookup", "translation_lookup"]);
  });

  test("SPEC-058 a call of a tool that was not shown is refused", async () => {
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "1 + 1" }]), { text: "None." }));

    const { json } = await say("few", "weather flight recipe");

    const result = json.messages.find(({ role }: { role: string }) => role === "tool");
    assert.equal(result.content, "[tool error/permission_denied] no tool of this name is bound");
  });

  test("SPEC-058 tools of the pattern, of artifacts and of the request are always shown", async () => {
    mock.answer("scripted", says("Hello."));
    await say("deep", "weather");
    const deep = last();
    await say("kept", "weather");
    const kept = last();
    const own = { type: "function", function: { name: "mine", parameters: { type: "object", properties: {} } } };
    const body = { model: "few", messages: [{ role: "user", content: "weather" }], tools: [own] };
    await server.post("/v1/chat/completions", body, as);
    const requested = last();
    const tool_choice = { type: "function", function: { name: "filler_22" } };
    await server.post("/v1/chat/completions", { ...body, tool_choice }, as);
    const wanted = last();

    for (const name of ["plan_create", "plan_update_step", "plan_get"]) assert.ok(deep.includes(name), deep.join());
    assert.ok(kept.includes("read_artifact"));
    assert.ok(requested.includes("mine"));
    assert.ok(wanted.includes("filler_22") && !requested.includes("filler_22"), wanted.join());
    assert.deepEqual([deep.length, kept.length, requested.length, wanted.length], [6, 4, 4, 5]);
  });

  test("SPEC-058 an embedding route finds tools by meaning, and each tool is made a vector of once", async () => {
    mock.answer("scripted", says("Hello."));
    const from = mock.requests.length;
    await say("likened", "Which ship leaves when it rains?");
    const first = last();
    const vectors = mock.requests
      .slice(from)
      .flatMap(({ path, body }) => (path.endsWith("/embeddings") ? (body.input as string[]) : []));
    const later = mock.requests.length;
    await say("likened", "And which vessel?");
    const more = mock.requests
      .slice(later)
      .flatMap(({ path, body }) => (path.endsWith("/embeddings") ? (body.input as string[]) : []));

    assert.deepEqual(first, ["weather_lookup", "flight_lookup"]);
    assert.equal(vectors.length, 31);
    assert.deepEqual(more, ["And which vessel?"]);
  });

  test("SPEC-058 a decider reorders the most similar tools, and its failure leaves their order", async () => {
    const isDecision = (messages: unknown): boolean => JSON.stringify(messages).includes("most useful");
    let answer: string = JSON.stringify({ choice: "recipe_lookup" });
    mock.answer("scripted", ({ body }) => ({ text: isDecision(body.messages) ? answer : "Hello." }));

    await say("deciding", "weather");
    const decided = last();
    answer = "no JSON";
    await say("deciding", "weather");
    const similar = last();

    assert.deepEqual(decided, ["recipe_lookup"]);
    assert.deepEqual(similar, ["weather_lookup"]);
  });

  test("SPEC-058 tools_max of the route bounds the choice, and a run with more tools fails by name", async () => {
    mock.answer("scripted", says("Hello."));
    await say("narrow", "weather");
    const narrow = last();
    const { status, json } = await say("whole", "weather", { model: "narrow", thread_id: "too-many" });
    const history = (await server.get("/chat/history/too-many", as)).json.messages;

    assert.equal(narrow.length, 5);
    assert.deepEqual([status, json.error], [422, "too_many_tools"]);
    assert.match(json.message, /has 30 tools, and narrow takes at most 5: spec\.tools_retrieval/);
    assert.equal(history[0].content, "weather", "the run was accepted first");
    const refused = await server.request("PUT", "/manifests/many", {
      ...as,
      body: { manifest: { metadata: { name: "many" }, spec: { ...base, model: { id: "narrow" } } } },
    });
    assert.deepEqual([refused.status, refused.json.detail[0].loc], [422, ["spec", "model", "id"]]);
    assert.match(refused.json.detail[0].msg, /takes at most 5 tools, and there are 30; spec\.tools_retrieval/);
  });

  test("SPEC-058 a planner sees only the chosen tools", async () => {
    mock.answer("scripted", says(JSON.stringify({ subtasks: [] })));

    await say("planner", "weather");

    const plan = mock.requests.findLast(({ body }) => JSON.stringify(body).includes("You plan the work"));
    const told = JSON.stringify(plan?.body.messages);
    assert.ok(told.includes("weather_lookup") && !told.includes("filler_22"), told);
  });

  test("SPEC-058 of a thousand tools that a source has found, the relevant ones are shown and run", async () => {
    mock.answer("scripted", inTurn(calls(["catalog_777", {}]), { text: "Done." }));

    const { json } = await say("catalog", "Which parts has model777?");

    assert.equal(last().length, 20);
    assert.equal(json.messages.find(({ role }: { role: string }) => role === "tool").content, "parts of model777");
  });

  test("SPEC-058 a durable run chooses the same tools again after a restart of the server", async () => {
    mock.answer("scripted", inTurn(calls(["calculator", { expression: "1 + 1" }]), { text: "Two." }));
    const from = mock.requests.length;
    const { json } = await say("durable", "calculator, invoice, recipe", { thread_id: "durable" });
    const record = async () => (await server.get(`/chat/runs/${json.resume_token}`, as)).json;
    const { waiting_on } = await eventually("the approval", async () => {
      const { items } = (await server.get("/approvals?status=pending", as)).json;
      return items[0] && { waiting_on: items[0] };
    });
    await server.restart();
    await server.post(`/approvals/${waiting_on.approval_id}/decide`, { decision: "approved", note: "" }, as);
    await eventually("the end", async () => (await record()).status === "completed" || undefined);

    const [first, second] = offered(from);
    assert.deepEqual(first, ["calculator", "invoice_lookup", "recipe_lookup"]);
    assert.deepEqual(second, first);
  });

  test("SPEC-058 the record of a call has the tools that the model was shown", async () => {
    mock.answer("scripted", says("Hello."));
    await say("few", "weather", { thread_id: "recorded" });

    const [row] = await eventually("the record", async () => {
      const rows = await callsOfAgent(server.dataDir, "few", "acme");
      const found = rows.filter(({ thread_key }) => thread_key !== null);
      return found.length === 0 ? undefined : found.slice(-1);
    });
    const request = (await server.get(`/runs/${row?.run_id}/requests/1`, as)).json;

    const names = request.bodies.tools.map((tool: { function: { name: string } }) => tool.function.name);
    assert.deepEqual(names, last());
    assert.deepEqual(request.bodies.problems, []);
  });
});
