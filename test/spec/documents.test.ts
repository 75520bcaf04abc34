// Documents: ingest, search and deletion over HTTP, and the tools of agents that search them.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { compileProblems } from "../manifests/support.ts";
import { calls, inTurn, shown, startChat, turn } from "../support/chat.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const returns = "# Returns\n\nGoods may be returned within thirty days.\n\n# Refunds\n\nMoney arrives after a week.";

interface Hit {
  readonly title: string;
  readonly content: string;
  readonly channels: readonly string[];
  readonly chunk_index: number;
}

describe("documents", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({
    writer: { tenant_id: "acme", scopes: ["documents:read", "documents:write"] },
    reader: { tenant_id: "acme", scopes: ["documents:read"] },
    full: { tenant_id: "full", scopes: ["documents:write", "documents:read"] },
    stranger: { tenant_id: "globex", scopes: ["*"] },
    chatter: { tenant_id: "acme", scopes: ["chat"] },
  });
  let server: TestServer;
  before(async () => {
    server = await startServer({ env: { ...env, SVC_DOCUMENTS_MAX_PER_TENANT: "12" }, atEnd });
  });

  const post = (body: object, key: string = keys.writer) => server.request("POST", "/documents", { key, body });
  async function found(q: string, key: string = keys.writer, limit = 5): Promise<Hit[]> {
    const { json, text, status } = await server.get(`/documents/search?q=${encodeURIComponent(q)}&limit=${limit}`, {
      key,
    });
    assert.equal(status, 200, text);
    assert.equal(json.count, json.items.length);
    return json.items;
  }

  test("DOCS-001 DOCS-006 DOCS-003 an ingested text is found by its words, in the lexical channel", async () => {
    const document = { title: "Shop", source: "https://shop.example/", text: returns, metadata: { team: "shop" } };

    const { status, json, text } = await post(document);
    const [first, ...rest] = await found("How do I return things?");

    assert.equal(status, 200, text);
    assert.deepEqual(Object.keys(json), ["doc_id", "chunks"]);
    assert.equal(json.chunks, 1);
    assert.deepEqual(rest, []);
    assert.deepEqual(first, {
      ...{ doc_id: json.doc_id, title: "Shop", source: "https://shop.example/", metadata: { team: "shop" } },
      ...{ chunk_index: 0, content: returns, score: 1 / 6, channels: ["lexical"] },
    });
  });

  test("DOCS-001 max_chars and overlap_chars set the size of chunks", async () => {
    const text = Array.from({ length: 40 }, (_, at) => `Paragraph ${at} speaks of quokkas.`).join(" ");

    const { json } = await post({ title: "Sizes", text, max_chars: 200, overlap_chars: 40 });
    const hits = await found("quokkas", keys.writer, 50);

    assert.equal(hits.length, json.chunks);
    assert.ok(hits.length > 5);
    for (const { content } of hits) assert.ok(content.length <= 200);
    assert.deepEqual(
      hits.map(({ chunk_index }) => chunk_index).toSorted((a, b) => a - b),
      [...hits.keys()],
    );
  });

  test("DOCS-002 another ingest of the same source and title replaces the document", async () => {
    const document = { title: "Replaced", source: "s" };
    const one = await post({ ...document, text: "zebra ".repeat(600), metadata: { v: 1 } });
    const two = await post({ ...document, text: "okapi", metadata: { v: 2 } });
    const other = await post({ ...document, source: "t", text: "zebra once" });

    const { json } = await server.get("/documents", { key: keys.writer });

    assert.equal(two.json.doc_id, one.json.doc_id);
    assert.notEqual(other.json.doc_id, one.json.doc_id);
    const [listed] = json.items.filter(({ doc_id }: { doc_id: string }) => doc_id === one.json.doc_id);
    assert.deepEqual([listed.chunks, listed.chars, listed.metadata], [1, 5, { v: 2 }]);
    assert.ok(listed.updated_at > listed.created_at);
    assert.deepEqual(
      (await found("zebra")).map(({ content }) => content),
      ["zebra once"],
    );
    assert.equal((await found("okapi")).length, 1);
  });

  test("DOCS-002 concurrent ingests of one document leave one of them whole", async () => {
    const texts = ["aardvark", "badger", "civet", "dingo"].map((word) => `${word} `.repeat(1_000));

    const answers = await Promise.all(texts.map((text) => post({ title: "Race", source: "race", text })));
    const hits = await Promise.all(texts.map((text) => found(text.slice(0, 6), keys.writer, 50)));

    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200, 200],
    );
    const left = hits.filter((of) => of.length > 0);
    assert.equal(left.length, 1);
    assert.ok(answers.some(({ json }) => json.chunks === left[0]?.length));
  });

  test("DOCS-004 the list is newest first, in pages", async () => {
    const first = await server.get("/documents?limit=1", { key: keys.reader });
    const second = await server.get(`/documents?limit=500&cursor=${first.json.next_cursor}`, { key: keys.reader });

    const all = [...first.json.items, ...second.json.items];
    assert.equal(first.json.count, 1);
    assert.equal(second.json.next_cursor, null);
    assert.ok(all.length >= 3);
    const times = all.map(({ updated_at }) => updated_at);
    assert.deepEqual(
      times,
      times.toSorted((a, b) => b - a),
    );
  });

  test("DOCS-005 DOCS-008 a search finds other forms, accents, and scripts without blanks", async () => {
    await post({ title: "Words", text: "Les élèves étudient.\n\n東京の天気は晴れです。\n\nDie Straße ist gesperrt." });

    for (const q of ["eleves", "ÉTUDIENT", "天気", "東京都", "straße", "etudient OR nothing", "nothing eleves"])
      assert.deepEqual(
        (await found(q)).map(({ title }) => title),
        ["Words"],
        q,
      );
    for (const q of ["空港", "!!!", "NEAR(", '"', "kiwi AND kea*"]) assert.deepEqual(await found(q), [], q);
  });

  test("DOCS-007 a deleted document is in no list and no search, and a second deletion is 404", async () => {
    const { json } = await post({ title: "Gone", text: "wombat ".repeat(400) });

    const deleted = await server.request("DELETE", `/documents/${json.doc_id}`, { key: keys.writer });
    const again = await server.request("DELETE", `/documents/${json.doc_id}`, { key: keys.writer });

    assert.deepEqual(deleted.json, { doc_id: json.doc_id, removed_chunks: json.chunks });
    assert.deepEqual([again.status, again.json.error], [404, "unknown_document"]);
    assert.deepEqual(await found("wombat"), []);
  });

  test("AUTH-019 reading and writing need their scopes", async () => {
    const read = await server.get("/documents/search?q=x", { key: keys.chatter });
    const list = await server.get("/documents", { key: keys.chatter });
    const write = await post({ title: "x", text: "x" }, keys.reader);
    const remove = await server.request("DELETE", "/documents/x", { key: keys.reader });

    assert.deepEqual([read.status, list.status, write.status, remove.status], [403, 403, 403, 403]);
  });

  test("another tenant finds nothing, and stores the same names apart", async () => {
    assert.deepEqual(await found("returned", keys.stranger), []);

    const { json } = await post(
      { title: "Shop", source: "https://shop.example/", text: "ours, returned" },
      keys.stranger,
    );

    assert.equal((await found("returned", keys.stranger)).length, 1);
    assert.equal((await found("returned")).length, 1);
    await server.request("DELETE", `/documents/${json.doc_id}`, { key: keys.stranger });
    assert.equal((await found("returned")).length, 1);
  });

  const misfits: readonly (readonly [string, object, number, unknown])[] = [
    ["without a title", { text: "x" }, 422, ["body", "title"]],
    ["a title of 401 characters", { title: "x".repeat(401), text: "x" }, 422, ["body", "title"]],
    ["a title of two lines", { title: "a\nb", text: "x" }, 422, ["body", "title"]],
    ["a source of two lines", { title: "a", source: "b\u2028c", text: "x" }, 422, ["body", "source"]],
    ["a control character", { title: "a", text: "x\u0007" }, 422, ["body", "text"]],
    ["an empty text", { title: "a", text: "" }, 422, ["body", "text"]],
    ["blanks only", { title: "a", text: " \n" }, 422, ["body", "text"]],
    ["750,001 characters", { title: "a", text: "x".repeat(750_001) }, 422, ["body", "text"]],
    ["16 KiB of metadata", { title: "a", text: "x", metadata: { a: "x".repeat(16_384) } }, 422, ["body", "metadata"]],
    ["chunks of 127 characters", { title: "a", text: "x", max_chars: 127 }, 422, ["body", "max_chars"]],
    ["an unknown field", { title: "a", text: "x", tenant: "b" }, 422, ["body", "tenant"]],
  ];
  for (const [what, body, status, loc] of misfits) {
    test(`an ingest with ${what} is refused and names the field`, async () => {
      const answer = await post(body);

      assert.deepEqual([answer.status, answer.json.detail[0].loc], [status, loc], answer.text);
    });
  }

  test("more than 2,000 chunks are 400, and 750,000 characters in one line are stored", async () => {
    const line = "abc ".repeat(187_500);

    const refused = await post({ title: "Long", text: line, max_chars: 128 });
    const stored = await post({ title: "Long", text: line });

    assert.deepEqual([refused.status, refused.json.error], [400, "document_too_long"]);
    assert.equal(stored.status, 200, stored.text);
    assert.ok(stored.json.chunks > 400);
  });

  test("more documents than SVC_DOCUMENTS_MAX_PER_TENANT are 409; replacing one is not", async () => {
    const all = await Promise.all(
      Array.from({ length: 30 }, (_, at) => post({ title: `at once ${at}`, text: "x" }, keys.full)),
    );
    const stored = all.filter(({ status }) => status === 200);
    const last = `at once ${all.findLastIndex(({ status }) => status === 200)}`;

    const one = await post({ title: "12", text: "x" }, keys.full);
    const replaced = await post({ title: last, text: "y" }, keys.full);

    assert.equal(stored.length, 12);
    assert.ok(all.every(({ status, json }) => status === 200 || json.error === "documents_full"));
    assert.deepEqual([one.status, one.json.error, replaced.status], [409, "documents_full", 200]);
  });
});

describe("the tools of documents", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {
        built: { tools: ["search_documents"] },
        own: { document_tools: [{ name: "handbook", filter: { source_prefix: "https://hand.example/" } }] },
        team: { document_tools: [{ name: "handbook", max_results: 1, filter: { metadata: { team: "shop", n: 1 } } }] },
      },
    }));
    for (const [title, source, metadata] of [
      ["A", "https://hand.example/a", {}],
      ["B", "https://other.example/b", { team: "shop", n: 1 }],
      ["C", "https://other.example/c", { team: "shop", n: 2 }],
    ] as const) {
      const body = { title, source, metadata, text: `Penguins swim, says ${title}.` };
      assert.equal((await server.request("POST", "/documents", { body })).status, 200);
    }
  });

  /** Runs one turn whose model searches once; returns the text that the model got, and the frames. */
  async function searched(manifest: string, tool: string, args: object) {
    mock.answer("scripted", inTurn(calls([tool, args]), { text: "done" }));
    const stream = await server.stream("/chat/stream", turn(manifest, "go", { thread_id: `of-${manifest}` }));
    const frames = await stream.rest();
    const text = shown(mock.requests.at(-1)).findLast(({ role }) => role === "tool")?.content ?? "";
    const [end] = frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data);
    return { text, end };
  }

  test("search_documents quotes the parts, and tool_end and the log name them as sources", async () => {
    const { text, end } = await searched("built", "search_documents", { query: "swimming penguins", limit: 2 });

    assert.match(text, /\[1\] [ABC] \(part 1\)\nSource: https:\/\/.*\nPenguins swim, says [ABC]\./);
    assert.equal(end.sources.length, 2);
    assert.deepEqual(Object.keys(end.sources[0]), ["doc_id", "title", "source", "chunk_index"]);
    const { json } = await server.get("/chat/history/of-built");
    assert.ok(JSON.stringify(json).includes(end.sources[0].doc_id), "the history names the sources");
  });

  test("the filters of document_tools narrow what an agent finds", async () => {
    const own = await searched("own", "handbook", { query: "penguins" });
    const team = await searched("team", "handbook", { query: "penguins" });

    assert.deepEqual(
      own.end.sources.map(({ title }: { title: string }) => title),
      ["A"],
    );
    assert.deepEqual(
      team.end.sources.map(({ title }: { title: string }) => title),
      ["B"],
    );
  });

  test("a question without a match is answered in words", async () => {
    const { text, end } = await searched("built", "search_documents", { query: "giraffe" });

    assert.equal(text, "No document matches.");
    assert.equal(end.sources, undefined);
  });

  test("a filter with an object in its metadata is refused", () => {
    const problems = compileProblems({ document_tools: [{ name: "x", filter: { metadata: { a: {} } } }] });

    assert.deepEqual(problems, ["unsupported spec.document_tools.0.filter.metadata.a"]);
  });
});
