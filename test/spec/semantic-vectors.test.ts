// spec.session.strategy semantic:N with an embedding route: the matches, their cost, and turns without vectors.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { shown, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import { embeddingScript } from "../support/mock-model/embeddings.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["*"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
/** The topics of the texts; no two texts on one topic share a word. */
const topics = [/zeppelin|airship/i, /tea|brew/i, /boat|vessel/i, /bread|butter/i, /rain|snow/i];
const said = ["The zeppelin is red", "Tea at five", "A boat on the lake", "Bread and butter", "Rain again", "Snow"];

/** An embedding model with one dimension for each topic. */
function meanings(body: Readonly<Record<string, unknown>>) {
  const inputs = body.input as readonly string[];
  const data = inputs.map((text, index) => ({
    object: "embedding",
    index,
    embedding: [...topics.map((topic) => (topic.test(text) ? 1 : 0)), 0.01],
  }));
  const tokens = 10 * inputs.length;
  return jsonScript(200, {
    object: "list",
    data,
    model: body.model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  });
}

async function startWith(atEnd: ReturnType<typeof cleanup>, embedder: string) {
  return startChatProcess(atEnd, {
    models: ["plain"],
    manifests: {
      similar: { session: { strategy: "semantic:2" } },
      capped: { session: { strategy: "semantic:2" }, limits: { max_cost_usd: 1 } },
      narrow: { session: { strategy: "semantic:2" }, limits: { max_input_tokens: 400 } },
      whole: {},
      skilled: { procedural_memory: { enabled: true, top_k: 1, embedding_model: "priced" } },
    },
    routes: {
      meanings: { provider: "openai", model: "meanings", kind: "embedding" },
      priced: { provider: "groq", model: "priced", kind: "embedding", price: { input: 4 } },
    },
    providers: { groq: { api_key: "groq-key" } },
    env: { ...env, SVC_MEMORY_EMBEDDER: embedder },
  });
}

describe("semantic:N with an embedding route", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startWith(atEnd, "auto"));
    mock.answer("plain", { text: "The answer." });
    mock.answer("meanings", ({ body }) => meanings(body));
  });

  const say = async (manifest: string, thread_id: string, text: string, key: string = keys.ann) => {
    const { status, json, text: body } = await server.post("/chat", turn(manifest, text, { thread_id }), { key });
    assert.equal(status, 200, body);
    return json;
  };
  const talk = async (manifest: string, thread: string, key?: string) => {
    for (const words of said) await say(manifest, thread, words, key);
  };
  const lastAsked = () =>
    shown(mock.requests.findLast(({ path }) => path.endsWith("/completions"))).map(({ content }) => content);
  const embedded = (from = 0) =>
    mock.requests
      .slice(from)
      .flatMap(({ path, body }) => (path.endsWith("/embeddings") ? (body.input as string[]) : []));

  test("SESS-025 messages are found by meaning, and embedded once", async () => {
    await talk("similar", "first");

    await say("similar", "first", "Which colour had the airship?");
    const airship = lastAsked();
    await say("similar", "first", "When do we brew?");
    const brew = lastAsked();

    assert.ok(airship.includes("The zeppelin is red") && !airship.includes("Tea at five"), airship.join());
    assert.ok(brew.includes("Tea at five") && !brew.includes("A boat on the lake"), brew.join());
    assert.ok(airship.indexOf("The zeppelin is red") < airship.indexOf("Snow"), "in their order");
    const texts = embedded();
    assert.equal(new Set(texts).size, texts.length, texts.join());
  });

  test("SESS-025 vectors are in the usage of the turn and its tenant, and of no other tenant", async () => {
    const from = mock.requests.length;
    await talk("similar", "theirs", keys.stranger);
    const { usage } = await say("similar", "theirs", "Which vessel?", keys.stranger);

    const { items } = (await server.get("/usage?limit=200", { key: keys.stranger })).json;
    const rows = items.filter(({ model_id }: { model_id: string }) => model_id === "meanings");
    assert.ok(embedded(from).includes("The zeppelin is red"), "what another tenant has asked about is asked again");
    assert.equal(
      rows.reduce((sum: number, row: { tokens_input: number }) => sum + row.tokens_input, 0),
      10 * embedded(from).length,
    );
    assert.ok(
      rows.every((row: Record<string, unknown>) => row.thread_id === "globex:theirs" && row.manifest_id === "similar"),
    );
    assert.ok(usage.input > 0);
    assert.ok(usage.totalTokens < usage.input + usage.output + 10, "the window is as full as the model's call says");
  });

  test("SPEC-064 embedding_model finds a procedure by the meaning that its route sees, else by words", async () => {
    for (const [content, key] of [
      ["Turn the zeppelin: pull the rope", keys.ann],
      ["Make tea: boil water", keys.ann],
      ["Turn the airship: another tenant's way", keys.stranger],
    ] as const)
      await server.post("/memory", { content, kind: "task", manifest_id: "skilled" }, { key });
    mock.answer("priced", ({ body }) => meanings(body));
    const from = mock.requests.length;

    await say("skilled", "flying", "Which way does an airship go?");
    const near = lastAsked().join("\n");
    const askedBy = mock.requests.slice(from).flatMap(({ path, body }) => (path.endsWith("/embeddings") ? [body] : []));
    mock.answer("priced", failure(500));
    await say("skilled", "boiling", "Does water need a kettle and a vessel?");
    const byWords = lastAsked().join("\n");

    assert.match(near, /How similar tasks were done before[\s\S]*Turn the zeppelin/);
    assert.doesNotMatch(near, /Make tea|another tenant/);
    assert.ok(askedBy.some(({ model, input }) => model === "priced" && String(input).includes("Which way")));
    assert.ok(!askedBy.some(({ model, input }) => model === "meanings" && String(input).includes("Which way")));
    assert.match(byWords, /Make tea/);
    assert.doesNotMatch(byWords, /Turn the zeppelin/);
  });

  test("SESS-025 vectors are computed again after a restart, and a turn finds the same messages", async () => {
    await talk("similar", "lasting");
    await say("similar", "lasting", "Which airship?");
    await server.restart();
    const from = mock.requests.length;

    await say("similar", "lasting", "Which airship, again?");

    assert.ok(lastAsked().includes("The zeppelin is red"));
    assert.ok(embedded(from).includes("The zeppelin is red"));
  });

  test("SESS-025 no other strategy embeds, nor one under a cost cap of a route without a price", async () => {
    const from = mock.requests.length;

    await talk("whole", "all-of-it");
    await talk("capped", "dear");
    await say("capped", "dear", "Which colour had the zeppelin?");

    assert.deepEqual(embedded(from), []);
    assert.ok(lastAsked().includes("The zeppelin is red"), "words are compared");
  });

  test("SESS-025 vectors use at most a quarter of the run's budget, and the turn continues", async () => {
    const from = mock.requests.length;
    for (const words of said) await say("whole", "small", words.padEnd(160, " and so on"));

    const { final } = await say("narrow", "small", "Which airship?");

    assert.equal(final.content, "The answer.");
    const pages = mock.requests.slice(from).filter(({ path }) => path.endsWith("/embeddings"));
    const characters = pages.map(({ body }) => (body.input as string[]).join("").length);
    assert.ok(pages.length > 0 && Math.max(...characters) <= 400, characters.join());
  });

  test("SESS-025 a turn that waits for vectors is stopped like any other", async () => {
    await talk("similar", "stopped");
    mock.answer("meanings", { steps: [{ hold: "forever" }] });
    const before = mock.requests.length;
    const waiting = server.post("/chat", turn("similar", "Which vessel was it?", { thread_id: "stopped" }), {
      key: keys.ann,
    });
    const pending = await eventually("a call for vectors", async () => mock.requests[before]);

    const aborted = await server.post("/chat/abort", { thread_id: "stopped" }, { key: keys.ann });

    const { status, json } = await waiting;
    assert.deepEqual([status, json.final, aborted.json.aborted], [200, null, true]);
    assert.equal(await pending.ended, "gone");
    assert.equal(mock.requests.length, before + 1);
    mock.answer("meanings", ({ body }) => meanings(body));
  });

  test("SESS-025 a failing provider costs no turn, and is not asked again for a while", async () => {
    await talk("similar", "failing");
    mock.answer("meanings", failure(400));
    const from = mock.requests.length;

    await say("similar", "failing", "Which colour had the zeppelin?");
    const first = lastAsked();
    const asked = embedded(from).length;
    await say("similar", "failing", "Which colour had the zeppelin, then?");

    assert.ok(first.includes("The zeppelin is red"), "words are compared");
    assert.ok(lastAsked().includes("The zeppelin is red"));
    assert.ok(asked > 0);
    assert.equal(embedded(from).length, asked);
    assert.ok(server.logs.some(({ msg }) => msg === "no embeddings: texts are compared by their words"));
  });
});

for (const [embedder, wanted] of [
  ["none", []],
  ["priced", ["priced"]],
  ["groq", ["priced"]],
] as const)
  describe(`SVC_MEMORY_EMBEDDER=${embedder}`, () => {
    const atEnd = cleanup();

    test("SET-012 logs which route embeds, or that words are compared", async () => {
      const { server, mock } = await startWith(atEnd, embedder);
      mock.answer("plain", { text: "The answer." });
      for (const name of ["meanings", "priced"]) mock.answer(name, ({ body }) => embeddingScript(body));

      for (const words of [...said, "Which zeppelin?"])
        await server.post("/chat", turn("capped", words, { thread_id: "t" }), { key: keys.ann });

      const models = mock.requests.flatMap(({ path, model }) => (path.endsWith("/embeddings") ? [model] : []));
      assert.deepEqual([...new Set(models)], wanted);
    });
  });
