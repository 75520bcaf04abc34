// The vectors of documents with an embedding route: hybrid search, the background work, a rebuild, and failures.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { startChatProcess } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["*"] },
  reader: { scopes: ["documents:read"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
/** The topics of the texts; no two texts on one topic share a word. */
const topics = [/zeppelin|airship/i, /tea|brew/i, /boat|vessel/i, /bread|butter/i];

/** An embedding model with one dimension for each topic. */
function meanings(body: Readonly<Record<string, unknown>>, dimensions = 8) {
  const inputs = body.input as readonly string[];
  const data = inputs.map((text, index) => {
    const embedding = new Array<number>(dimensions).fill(0.01);
    for (const [at, topic] of topics.entries()) if (topic.test(text)) embedding[at] = 1;
    return { object: "embedding", index, embedding };
  });
  const tokens = 10 * inputs.length;
  return jsonScript(200, {
    ...{ object: "list", data, model: body.model },
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  });
}

interface Hit {
  readonly title: string;
  readonly channels: readonly string[];
}

describe("documents with an embedder", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["plain"],
      routes: { meanings: { provider: "openai", model: "meanings", kind: "embedding" } },
      env: { ...env, SVC_MEMORY_EMBEDDING_DIM: "8" },
    }));
    mock.answer("meanings", ({ body }) => meanings(body));
  });

  async function post(title: string, text: string, more: object = {}, key = keys.ann) {
    const { status, text: body } = await server.post("/documents", { title, text, ...more }, { key });
    assert.equal(status, 200, body);
  }
  async function search(q: string, key = keys.ann): Promise<Hit[]> {
    const { json, status, text } = await server.get(`/documents/search?q=${encodeURIComponent(q)}`, { key });
    assert.equal(status, 200, text);
    return json.items.map(({ title, channels }: Hit) => ({ title, channels }));
  }
  async function listed(key = keys.ann): Promise<Record<string, [embedded: number, chunks: number]>> {
    const { json } = await server.get("/documents", { key });
    return Object.fromEntries(
      json.items.map((item: { title: string; embedded: number; chunks: number }) => [
        item.title,
        [item.embedded, item.chunks],
      ]),
    );
  }
  const embedded = (title: string, key = keys.ann) =>
    eventually(`vectors of ${title}`, async () => {
      const [done, all] = (await listed(key))[title] ?? [0, 1];
      return done === all || undefined;
    });

  test("MEM-013 a search of memories finds a paraphrase by its vector, and an erased one no more", async () => {
    const stored = await server.post(
      "/memory",
      { content: "Ann steers an airship.", manifest_id: "m" },
      { key: keys.ann },
    );
    await server.post("/memory", { content: "Ann bakes.", manifest_id: "m" }, { key: keys.ann });
    await server.post("/memory", { content: "A stranger's airship." }, { key: keys.stranger });
    const find = async () =>
      (await server.get("/memory/search?q=zeppelin&limit=1", { key: keys.ann })).json.items as {
        content: string;
        channels: string[];
      }[];

    const [hit] = await eventually("a hit by its vector", async () => {
      const hits = await find();
      return hits[0]?.content.includes("airship") && hits;
    });
    const listed = await eventually("both have vectors", async () => {
      const { json } = await server.get("/memory?manifest_id=m", { key: keys.ann });
      return json.items.every(({ embedding_dim }: { embedding_dim: number }) => embedding_dim === 8) && json.items;
    });
    await server.request("DELETE", `/memory/${stored.json.id}?erase=true`, { key: keys.ann });
    const status = await server.get("/embeddings/status", { key: keys.ann });

    assert.deepEqual(hit?.channels, ["vector"]);
    assert.equal(listed[0].embedding_model, "openai/meanings");
    assert.ok(!(await find()).some(({ content }) => content.includes("airship")));
    assert.deepEqual(
      status.json.corpora?.find(({ corpus }: { corpus: string }) => corpus === "memories"),
      { corpus: "memories", texts: 2, embedded: 2, queued: 0 },
    );
  });

  test("DOCS-005 DOCS-008 a document is found by meaning, once its vectors are stored", async () => {
    await post("Flight", "The zeppelin is red.");
    await post("Afternoon", "Tea at five.");
    await embedded("Flight");
    await embedded("Afternoon");

    const [first] = await search("Which colour has an airship?");
    const [both] = await search("zeppelin");

    assert.deepEqual(first, { title: "Flight", channels: ["vector"] });
    assert.deepEqual(both, { title: "Flight", channels: ["lexical", "vector"] });
    assert.deepEqual(await search("airship", keys.stranger), []);
  });

  test("DOCS-008 /ready and the start log name the embedder and its host, and usage counts its calls", async () => {
    const started = server.logs.find(({ msg }) => msg === "svc is ready");
    const { json } = await server.get("/ready");
    const { items } = (await server.get("/usage?limit=200", { key: keys.ann })).json;

    assert.deepEqual([json.checks.vectors.status, json.checks.vectors.embedder], ["on", "meanings"]);
    assert.match(json.checks.vectors.host, /^127\.0\.0\.1:\d+$/);
    assert.deepEqual([started?.embedder, started?.embedder_host], ["meanings", json.checks.vectors.host]);
    assert.ok(
      items.some(({ kind, model_id }: Record<string, string>) => kind === "embedding" && model_id === "meanings"),
    );
  });

  test("DOCS-002 a replaced document is found by its new meaning only", async () => {
    await post("Changing", "A boat on the lake.");
    await embedded("Changing");
    await post("Changing", "Bread and butter.");
    await embedded("Changing");

    const hits = await search("vessel");

    assert.notDeepEqual(hits[0], { title: "Changing", channels: ["vector"] });
  });

  test("DOCS-003 a search while the embedder fails compares words only, and the vectors follow", async () => {
    mock.answer("meanings", failure(500));
    await post("Late", "The vessel sinks.");

    const hits = await search("sinks");
    const isListed = (await listed()).Late;

    assert.deepEqual(hits, [{ title: "Late", channels: ["lexical"] }]);
    assert.deepEqual(isListed, [0, 1]);
    mock.answer("meanings", ({ body }) => meanings(body));
    await server.restart();
    await server.post("/tasks/text_vectors/run", {}, { key: keys.ann });
    await embedded("Late");
  });

  test("SET-013 a rebuild after a change of the dimensions continues after a kill", async () => {
    mock.answer("meanings", ({ body }) => meanings(body, 16));
    await server.restart({ SVC_MEMORY_EMBEDDING_DIM: "16" });
    const [before] = await search("airship");
    const warning = await eventually("a warning", async () => server.logs.find((line) => line.stored_dimensions === 8));
    const began = await server.post("/embeddings/rebuild", {}, { key: keys.ann });
    assert.equal(began.status, 200, began.text);
    await server.kill();
    await server.restart({ SVC_MEMORY_EMBEDDING_DIM: "16" });

    await embedded("Flight");
    const [after] = await search("airship");
    const status = await eventually("the end of the rebuild", async () => {
      const { json } = await server.get("/embeddings/status", { key: keys.ann });
      return json.rebuilding || json.corpora[0].queued > 0 ? undefined : json;
    });

    assert.equal(before, undefined);
    assert.equal(warning.dimensions, 16);
    assert.deepEqual(after, { title: "Flight", channels: ["vector"] });
    assert.deepEqual([status.dimensions, status.corpora[0].embedded], [16, status.corpora[0].texts]);
    assert.equal((await server.get("/embeddings/status", { key: keys.reader })).status, 403);
  });

  for (const [form, word, embedding] of [
    ["a list with NaN as a text", "pelican", new Array(16).fill("NaN")],
    ["base64 with one NaN", "walrus", Buffer.from(new Float32Array([Number.NaN, ...Array(15).fill(1)]).buffer)],
    ["base64 with infinity", "ostrich", Buffer.from(new Float32Array([Infinity, ...Array(15).fill(1)]).buffer)],
  ] as const)
    test(`a vector that is ${form} is not stored, and its text is found by words`, async () => {
      mock.answer("meanings", ({ body }) => {
        const inputs = body.input as readonly string[];
        const vector = Buffer.isBuffer(embedding) ? embedding.toString("base64") : embedding;
        const data = inputs.map((_, index) => ({ object: "embedding", index, embedding: vector }));
        return jsonScript(200, {
          object: "list",
          data,
          model: body.model,
          usage: { prompt_tokens: 1, total_tokens: 1 },
        });
      });
      const logged = server.logs.length;
      await post(word, `A ${word}.`);
      const asked = () => mock.requests.filter(({ body }) => JSON.stringify(body).includes(word)).length;
      await eventually("a call for its vector", async () => asked() > 0 || undefined);
      await eventually("the refusal of its vector", async () =>
        server.logs.slice(logged).some(({ msg }) => msg === "stored texts get no vectors: the embedder fails"),
      );

      assert.deepEqual(await search(word), [{ title: word, channels: ["lexical"] }]);
      assert.deepEqual((await listed())[word], [0, 1]);
    });

  test("SET-013 vectors of another length are refused, and the log names the setting", async () => {
    mock.answer("meanings", ({ body }) => meanings(body, 24));
    await post("Longer", "A brew.");

    const line = await eventually("a warning", async () =>
      server.logs.find(({ reason }) => String(reason).includes("SVC_MEMORY_EMBEDDING_DIM=24")),
    );

    assert.ok(line);
    assert.deepEqual((await listed()).Longer, [0, 1]);
  });
});
