// The routes of memory: write, list, search, forget, restore and erase.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { databaseOf, skipPostgres } from "../faults/support.ts";
import { eventually } from "../support/eventually.ts";
import { apiKeys, startServer, type TestServer } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const rowKeys = [
  ...["tenant_id", "id", "kind", "manifest_id", "content", "metadata", "created_at", "updated_at", "last_used_at"],
  ...["thread_id", "topic_key", "status", "superseded_by", "importance", "origin_seq", "superseded_seq"],
  ...["embedding_dim", "embedding_model"],
];
const hitKeys = [
  ...["id", "content", "kind", "score", "topic_key", "importance", "channels", "thread_id", "origin_seq"],
  ...["manifest_id", "created_at", "last_used_at"],
];

interface Row {
  readonly id: string;
  readonly content: string;
  readonly status: string;
  readonly superseded_by: string | null;
}

for (const dialect of gateDialects)
  describe(`the routes of memory on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    const { env, keys } = apiKeys({
      admin: { tenant_id: "acme", scopes: ["admin"] },
      writer: { tenant_id: "acme", scopes: ["memory:write"] },
      reader: { tenant_id: "acme", scopes: ["memory:read"] },
      chatter: { tenant_id: "acme", scopes: ["chat"] },
      stranger: { tenant_id: "globex", scopes: ["*"] },
    });
    let server: TestServer;
    before(async () => {
      server = await startServer({ env: { ...env, ...(await databaseOf(dialect, atEnd)).env }, atEnd });
    });

    const post = (body: object, key: string = keys.writer) => server.request("POST", "/memory", { key, body });
    async function written(body: object, key?: string): Promise<string> {
      const { json, status, text } = await post(body, key);
      assert.equal(status, 200, text);
      return json.id;
    }
    async function list(query = "", key: string = keys.reader): Promise<Row[]> {
      const { json, status, text } = await server.get(`/memory?${query}`, { key });
      assert.equal(status, 200, text);
      return json.items;
    }
    const found = async (q: string, query = "", key: string = keys.reader) =>
      (await server.get(`/memory/search?q=${encodeURIComponent(q)}${query}`, { key })).json.items as Row[];
    const forget = (id: string, key: string = keys.writer, query = "") =>
      server.request("DELETE", `/memory/${id}${query}`, { key });
    const restore = (id: string, key: string = keys.writer) => server.request("POST", `/memory/${id}/restore`, { key });
    const contents = (rows: readonly Row[]) => rows.map(({ content }) => content);

    test("MEM-001 MEM-002 MEM-015 a stored memory is listed with all its fields, outside of any thread", async () => {
      const { json, status } = await post({ content: "Alice likes quince.", manifest_id: "bot", importance: 0.9 });

      const [row] = (await list("manifest_id=bot")) as unknown as Record<string, unknown>[];
      assert.deepEqual([status, Object.keys(json), json.status], [200, ["id", "status"], "active"]);
      assert.deepEqual(Object.keys(row ?? {}).toSorted(), rowKeys.toSorted());
      assert.deepEqual(
        [row?.id, row?.thread_id, row?.origin_seq, row?.topic_key, row?.kind, row?.importance, row?.last_used_at],
        [json.id, "", null, null, "fact", 0.9, null],
      );
      assert.deepEqual(row?.metadata, { source: "operator", principal: "writer", taint: [] });
      assert.equal((await list("thread_id=&manifest_id=bot")).length, 1);
      assert.equal((await list("thread_id=other")).length, 0);
    });

    test("MEM-003 MEM-013 a search finds memories by their words and names the channel", async () => {
      const id = await written({
        content: "The parcels are stored in Göteborg.",
        manifest_id: "search",
        topic_key: "depot",
      });
      await written({ content: "東京の倉庫は満杯です。", manifest_id: "search" });

      const [hit, ...rest] = (await found("storing a parcel")) as unknown as Record<string, unknown>[];

      assert.deepEqual(rest, []);
      assert.deepEqual(Object.keys(hit ?? {}).toSorted(), hitKeys.toSorted());
      assert.deepEqual([hit?.id, hit?.score, hit?.channels], [id, 1 / 6, ["lexical"]]);
      for (const q of ["goteborg", "depot", "GÖTEBORG OR nothing"]) assert.equal((await found(q)).length, 1, q);
      assert.deepEqual(contents(await found("倉庫")), ["東京の倉庫は満杯です。"]);
      for (const q of ["NEAR(", '"', "content:parcels*", "!!!"]) assert.ok((await found(q)).length <= 1, q);
      assert.deepEqual(await found("parcels", "&manifest_id=other"), []);
      assert.deepEqual(await found("parcels", "&kind=event"), []);
      assert.deepEqual(await found("parcels", "", keys.stranger), []);
    });

    const misfits: readonly (readonly [string, object, string])[] = [
      ["4,001 characters", { content: "x".repeat(4_001) }, "content"],
      ["an empty content", { content: "" }, "content"],
      ["blanks only", { content: " \n" }, "content"],
      ["a control character", { content: "a\u0007" }, "content"],
      ["a topic key of 201 characters", { content: "x", topic_key: "k".repeat(201) }, "topic_key"],
      ["an importance of 1.1", { content: "x", importance: 1.1 }, "importance"],
      ["a negative importance", { content: "x", importance: -0.1 }, "importance"],
      ["an unknown field", { content: "x", tenant_id: "globex" }, "tenant_id"],
    ];
    for (const [what, body, field] of misfits)
      test(`MEM-004 ${what} is refused and names the field`, async () => {
        const { status, json } = await post(body);

        assert.deepEqual([status, json.detail[0].loc], [422, ["body", field]]);
      });

    test("MEM-004 the longest content and topic key are stored", async () => {
      const { status } = await post({ content: "x".repeat(4_000), topic_key: "k".repeat(200), importance: 1 });

      assert.equal(status, 200);
    });

    test("MEM-006 a forgotten memory is in no search, and in the list of forgotten ones", async () => {
      const id = await written({ content: "Bob owns a zebra.", manifest_id: "forget" });

      const first = await forget(id);
      const again = await forget(id);

      assert.deepEqual([first.json, again.status], [{ id, status: "forgotten" }, 200]);
      assert.deepEqual(await found("zebra"), []);
      assert.deepEqual(await list("manifest_id=forget"), []);
      const [row] = (await list("status=forgotten&manifest_id=forget")) as unknown as { metadata: object }[];
      assert.partialDeepStrictEqual(row?.metadata, { forgotten_by: "writer" });
    });

    test("MEM-007 the caller that forgot a memory restores it", async () => {
      const id = await written({ content: "Carol plays the oboe.", manifest_id: "restore" });
      await forget(id);

      const { json } = await restore(id);

      assert.deepEqual(json, { id, status: "active" });
      assert.deepEqual(contents(await found("oboe")), ["Carol plays the oboe."]);
      assert.deepEqual(await list("status=forgotten&manifest_id=restore"), []);
    });

    test("MEM-008 an active and a superseded memory cannot be restored", async () => {
      const old = await written({ content: "v1", manifest_id: "keys8", topic_key: "k" });
      const fresh = await written({ content: "v2", manifest_id: "keys8", topic_key: "k" });

      for (const id of [old, fresh]) {
        const { status, json } = await restore(id);
        assert.deepEqual([status, json.error], [409, "not_forgotten"]);
      }
      assert.deepEqual(contents(await list("manifest_id=keys8")), ["v2"]);
    });

    test("MEM-009 what an administrator forgot, a lower rank cannot restore", async () => {
      const id = await written({ content: "Dave is on leave.", manifest_id: "ranks" });
      const late = await written({ content: "Dave is back.", manifest_id: "ranks" });
      await forget(id, keys.admin);
      await forget(late);
      await forget(late, keys.admin);

      for (const one of [id, late]) {
        const refused = await restore(one);
        assert.deepEqual([refused.status, refused.json.error], [403, "restore_refused"]);
      }
      assert.equal((await list("status=forgotten&manifest_id=ranks")).length, 2);
      assert.equal((await restore(id, keys.admin)).status, 200);
    });

    test("MEM-010 a topic key supersedes the other active memories of the agent with it", async () => {
      const old = await written({ content: "lives in Bonn", manifest_id: "keys10", topic_key: "home" });
      const elsewhere = await written({ content: "lives in Kiel", manifest_id: "keys10b", topic_key: "home" });
      const unkeyed = await written({ content: "has a garden", manifest_id: "keys10" });
      const fresh = await written({ content: "lives in Ulm", manifest_id: "keys10", topic_key: "home" });

      const [retired] = await list("status=superseded&manifest_id=keys10");
      assert.deepEqual([retired?.id, retired?.superseded_by], [old, fresh]);
      assert.deepEqual((await list("manifest_id=keys10")).map(({ id }) => id).toSorted(), [fresh, unkeyed].toSorted());
      assert.deepEqual((await list("manifest_id=keys10b"))[0]?.id, elsewhere);
      assert.deepEqual(await found("Bonn"), []);
    });

    test("MEM-010 concurrent posts of one topic key leave at least one active, and lose none", async () => {
      const posts = Array.from({ length: 8 }, (_, at) =>
        post({ content: `n${at}`, manifest_id: "race", topic_key: "k" }),
      );

      const answers = await Promise.all(posts);

      assert.ok(answers.every(({ status }) => status === 200));
      const active = await list("manifest_id=race");
      const superseded = await list("manifest_id=race&status=superseded");
      assert.ok(active.length >= 1);
      assert.equal(active.length + superseded.length, 8);
    });

    test("MEM-011 the list is newest first, in pages, and refuses an unknown status", async () => {
      for (let at = 0; at < 3; at++) await written({ content: `page ${at}`, manifest_id: "pages" });

      const first = await server.get("/memory?manifest_id=pages&limit=2", { key: keys.reader });
      const second = await server.get(`/memory?manifest_id=pages&cursor=${first.json.next_cursor}`, {
        key: keys.reader,
      });
      const bad = await server.get("/memory?status=gone", { key: keys.reader });
      const badCursor = await server.get("/memory?cursor=x", { key: keys.reader });

      assert.deepEqual(contents([...first.json.items, ...second.json.items]).toSorted(), [
        "page 0",
        "page 1",
        "page 2",
      ]);
      assert.deepEqual([second.json.next_cursor, bad.status, badCursor.status], [null, 422, 400]);
    });

    test("MEM-012 the list of forgotten memories begins with the last forgotten", async () => {
      const ids = [
        await written({ content: "one", manifest_id: "order" }),
        await written({ content: "two", manifest_id: "order" }),
      ];
      await forget(ids[1] as string);
      const { updated_at } = (await list("status=forgotten&manifest_id=order"))[0] as unknown as { updated_at: number };
      await eventually("the clock moves on", async () => Date.now() > updated_at);
      await forget(ids[0] as string);

      assert.deepEqual(contents(await list("status=forgotten&manifest_id=order")), ["one", "two"]);
    });

    test("MEM-022 a kind that is not known becomes a fact", async () => {
      await written({ content: "a", manifest_id: "kinds", kind: "foo" });
      await written({ content: "b", manifest_id: "kinds", kind: "instruction" });

      assert.deepEqual(contents(await list("manifest_id=kinds&kind=fact")), ["a"]);
      assert.deepEqual(contents(await list("manifest_id=kinds&kind=instruction")), ["b"]);
    });

    test("MEM-014 as of a turn, a memory outside of any thread is not shown", async () => {
      await written({ content: "timeless", manifest_id: "asof" });

      const { json } = await server.get("/memory/as-of/100?manifest_id=asof", { key: keys.reader });
      const negative = await server.get("/memory/as-of/-1", { key: keys.reader });

      assert.deepEqual(json, { turn_seq: 100, items: [] });
      assert.equal(negative.status, 422);
    });

    test("AUTH-018 reading and writing need their scopes", async () => {
      const id = await written({ content: "kept", manifest_id: "scopes" });

      const answers = [
        await server.get("/memory", { key: keys.chatter }),
        await server.get("/memory/search?q=x", { key: keys.chatter }),
        await server.get("/memory/as-of/1", { key: keys.chatter }),
        await post({ content: "x" }, keys.reader),
        await forget(id, keys.reader),
        await restore(id, keys.reader),
        await server.request("DELETE", "/memory?principal=writer", { key: keys.reader }),
      ];

      assert.deepEqual(
        answers.map(({ status }) => status),
        answers.map(() => 403),
      );
      assert.equal((await list("manifest_id=scopes", keys.writer)).length, 1);
    });

    test("an erased memory is gone, and its bytes are free", async () => {
      const id = await written({ content: "Erin wears an okapi mask.", manifest_id: "erase" });

      const erased = await forget(id, keys.writer, "?erase=true");
      const again = await forget(id, keys.writer, "?erase=true");

      assert.deepEqual(erased.json, { id, status: "erased" });
      assert.deepEqual([again.status, again.json.error], [404, "unknown_memory"]);
      assert.deepEqual(await found("okapi"), []);
      for (const status of ["active", "forgotten", "superseded"])
        assert.deepEqual(await list(`manifest_id=erase&status=${status}`), []);
    });

    test("all memories of a person are erased at once, and those of no one else", async () => {
      for (let at = 0; at < 3; at++) await written({ content: `mine ${at}`, manifest_id: "person" }, keys.admin);
      await written({ content: "another's", manifest_id: "person" });
      await post({ content: "the stranger's" }, keys.stranger);

      const neither = await server.request("DELETE", "/memory", { key: keys.writer });
      const both = await server.request("DELETE", "/memory?principal=a&thread_id=b", { key: keys.writer });
      const { json } = await server.request("DELETE", "/memory?principal=admin", { key: keys.writer });

      assert.deepEqual([neither.status, both.status, json], [422, 422, { erased: 3 }]);
      assert.deepEqual(contents(await list("manifest_id=person")), ["another's"]);
      assert.equal((await list("", keys.stranger)).length, 1);
    });

    test("writing, forgetting and restoring leave audit rows without the text", async () => {
      const id = await written({ content: "a planted word: xylograph", manifest_id: "audit" });
      await forget(id);
      await restore(id);

      const { json, text } = await server.get("/audit?limit=200", { key: keys.admin });

      const types = json.items
        .filter(({ payload }: { payload: { memory_id?: string } }) => payload.memory_id === id)
        .map(({ event_type }: { event_type: string }) => event_type);
      assert.deepEqual(types.toSorted(), ["memory_forgotten", "memory_restored", "memory_written"]);
      assert.ok(!text.includes("xylograph"));
    });
  });
