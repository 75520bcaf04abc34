import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import { type Env, systemEnv } from "../../../bus/env.ts";
import type { Store, TenantStore } from "../../../storage/store/store.ts";
import { appendOp, deleteEventsOp, type EventKind, type EventRole } from "../../../storage/tables/events.ts";
import { deleteWordsOp, indexEvents, searchEvents } from "../../../storage/tables/search.ts";
import { markWords, searchWords } from "../../../storage/tables/search-words.ts";
import { deleteThreadOp, insertThreadOp, progressOp, reserveThreadKeys } from "../../../storage/tables/threads.ts";
import { runs } from "../../support/effort.ts";
import { threadRow } from "../../support/rows.ts";
import { dialects, type TestStore, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();

type Line = string | { readonly content: string; readonly kind?: EventKind; readonly role?: EventRole };

/** Creates a thread with these events like turns do. Returns its key. */
async function say(store: Store, tenantId: string, suffix: string, ...lines: Line[]): Promise<number> {
  const tenant = store.tenant(tenantId);
  const key = await reserveThreadKeys(store.system, 1);
  await tenant.write([insertThreadOp(tenant, threadRow(key, suffix, { uid: `uid-${suffix}` }))]);
  await append(store, tenantId, key, 0, ...lines);
  return key;
}

async function append(store: Store, tenantId: string, key: number, from: number, ...lines: Line[]): Promise<void> {
  const tenant = store.tenant(tenantId);
  const ops = lines.map((line, i) => {
    const { content, kind = "message", role = "user" } = typeof line === "string" ? { content: line } : line;
    return appendOp(tenant, key, {
      seq: from + i,
      parent_seq: from + i - 1,
      ts: 1000 + i,
      kind,
      role,
      content,
      extra: null,
    });
  });
  const next = from + lines.length;
  await tenant.write([
    ...ops,
    progressOp(
      tenant,
      { epoch: 0, next_seq: from },
      {
        thread_key: key,
        updated_at: 2,
        next_seq: next,
        leaf_seq: next - 1,
        bytes: 0,
        epoch: 0,
        manifest: null,
        model_id: null,
      },
    ),
  ]);
}

for (const dialect of dialects) {
  describe(`search on ${dialect}`, () => {
    const atEnd = cleanup();
    let running: TestStore;
    let store: Store;
    let count = 0;
    before(async () => {
      running = await testStore(dialect, atEnd);
      store = running.store;
    });

    const freshTenant = (): string => `search ${++count}: it's a "tenant"`;
    const find = async (tenantId: string, query: string, limit = 20): Promise<string[]> =>
      (await searchEvents(store.tenant(tenantId), query, limit, env)).map(({ content }) => content);

    test("SESS-020 a hit names its thread and event, and the best comes first", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "t1", "nothing here", { content: "the zebra and the zebra", role: "assistant" });
      await say(store, tenant, "t2", `a zebra ${"among many other words ".repeat(30)}`);

      const hits = await searchEvents(store.tenant(tenant), "zebra", 20, env);

      assert.deepEqual(
        hits.map(({ suffix, uid, seq, ts, role }) => ({ suffix, uid, seq, ts, role })),
        [
          { suffix: "t1", uid: "uid-t1", seq: 1, ts: 1001, role: "assistant" },
          { suffix: "t2", uid: "uid-t2", seq: 0, ts: 1000, role: "user" },
        ],
      );
      assert.equal(hits[0]?.rank, 1);
      assert.ok((hits[1]?.rank as number) < 1 && (hits[1]?.rank as number) > 0);
    });

    test("every word must occur, in any form, order, case and accent; common words count", async () => {
      const tenant = freshTenant();
      await say(
        store,
        tenant,
        "t",
        "The dogs were running to the café",
        "a dog",
        "東京タワーへ行く",
        "snake_case and foo-bar.baz v2",
      );

      assert.deepEqual(await find(tenant, "run DOG cafe"), ["The dogs were running to the café"]);
      assert.deepEqual(await find(tenant, "the"), ["The dogs were running to the café"]);
      assert.deepEqual((await find(tenant, "dog")).toSorted(), ["The dogs were running to the café", "a dog"]);
      assert.deepEqual(await find(tenant, "dog elephant"), []);
      assert.deepEqual(await find(tenant, "東京"), ["東京タワーへ行く"]);
      assert.deepEqual(await find(tenant, "case bar v2"), ["snake_case and foo-bar.baz v2"]);
    });

    test("only what people and agents said is searched", async () => {
      const tenant = freshTenant();
      await say(
        store,
        tenant,
        "t",
        { content: "walrus one", role: "user" },
        { content: "walrus two", role: "assistant" },
        { content: "walrus three", role: "system" },
        { content: "walrus four", kind: "tool_result", role: "tool" },
        { content: "walrus five", kind: "thinking", role: "assistant" },
        { content: "walrus six", kind: "custom", role: "user" },
      );

      assert.deepEqual((await find(tenant, "walrus")).toSorted(), ["walrus one", "walrus two"]);
    });

    test("a query without a word has no hits", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "t", "something");

      for (const query of ["", "   ", "!!!", '"', "* ( )", "\0", "☃"])
        assert.deepEqual(await find(tenant, query), [], query);
    });

    test("no query syntax reaches the engine: operators are words", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "t", "alpha beta not gamma near", "tenant content rowid");

      assert.deepEqual(await find(tenant, "alpha NOT gamma"), ["alpha beta not gamma near"]);
      assert.deepEqual(await find(tenant, "alpha OR zebra"), []);
      assert.deepEqual(await find(tenant, "alp*"), []);
      assert.deepEqual(await find(tenant, "tenant : content"), ["tenant content rowid"]);
      for (const query of [
        'alpha" OR tenant : "t',
        "alpha') OR 1=1 --",
        "alpha:*",
        "alpha & !beta",
        "NEAR(alpha beta, 1)",
        "{a b} : c",
        "^alpha",
        "alpha + beta",
        "<-> | &",
      ])
        await find(tenant, query);
    });

    test("no query fails, whatever its text", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "t", "alpha");

      await fc.assert(
        fc.asyncProperty(fc.string({ unit: "binary", maxLength: 60 }), async (query) => {
          const hits = await find(tenant, query);
          assert.ok(hits.length <= 1);
        }),
        { numRuns: runs(100) },
      );
    });

    test("a tenant finds its own words only, and its ranks disclose nothing of others", async () => {
      const [mine, theirs] = [freshTenant(), freshTenant()];
      await say(store, mine, "t", "our giraffe");
      const alone = await searchEvents(store.tenant(mine), "giraffe", 20, env);
      for (let i = 0; i < 5; i++) await say(store, theirs, `t${i}`, "their giraffe", "their secret giraffe plan");

      const hits = await searchEvents(store.tenant(mine), "giraffe", 20, env);

      assert.deepEqual(hits, alone);
      assert.deepEqual(await find(mine, "secret"), []);
      assert.equal((await find(theirs, "giraffe")).length, 10);
    });

    test("a tenant's mark in the index is not one of its words", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "t", "some text");

      const [mark = "", word = ""] = markWords(tenant, ["", "text"]);
      for (const query of [mark, mark.slice(0, -1), word]) assert.deepEqual(await find(tenant, query), [], query);
      assert.deepEqual(await find(tenant, tenant), []);
    });

    test("words of one and two letters are found", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "t", "i am", "it is us", "a u turn");

      assert.deepEqual(await find(tenant, "i"), ["i am"]);
      assert.deepEqual(await find(tenant, "is"), ["it is us"]);
      assert.deepEqual(await find(tenant, "u"), ["a u turn"]);
    });

    test("a short word does not match a longer one that begins with it", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "t", "100 apples", "version v1", "10 pears", "i0 and a00");

      assert.deepEqual(await find(tenant, "10"), ["10 pears"]);
      assert.deepEqual(await find(tenant, "100"), ["100 apples"]);
      assert.deepEqual(await find(tenant, "v1"), ["version v1"]);
      for (const absent of ["v10", "i", "i00", "a0", "a000"]) assert.deepEqual(await find(tenant, absent), [], absent);
    });

    test("a rare word is found quickly, and a common one is read in the compute pool", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "t", "one rare crane", ...Array.from({ length: 70 }, (_, i) => `common ${i}`));
      await indexEvents(store, 1000, env);
      const long: string[] = [];
      const scope = store.tenant(tenant);
      const seen: TenantStore = {
        ...scope,
        tenantId: tenant,
        inOrder: scope.inOrder,
        op: scope.op.bind(scope),
        write: scope.write.bind(scope),
        read: scope.read.bind(scope),
        readLong: (statement, ...params) => {
          long.push(statement.name);
          return scope.readLong(statement, ...params);
        },
      };

      assert.equal((await searchEvents(seen, "crane", 20, env)).length, 1);
      assert.equal((await searchEvents(seen, "absent", 20, env)).length, 0);
      assert.deepEqual(long, []);
      assert.equal((await searchEvents(seen, "common", 100, env)).length, 70);
      assert.equal((await searchEvents(seen, "rare crane", 20, env)).length, 1);
      assert.deepEqual(long, ["search_hits", "search_hits"]);
    });

    test("a search finds later text at once and no old event twice", async () => {
      const tenant = freshTenant();
      const key = await say(store, tenant, "t", "first lynx");
      assert.deepEqual(await find(tenant, "lynx"), ["first lynx"]);

      await append(store, tenant, key, 1, "second lynx");

      assert.deepEqual((await find(tenant, "lynx")).toSorted(), ["first lynx", "second lynx"]);
    });

    test("a limit is applied", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "t", ...Array.from({ length: 30 }, (_, i) => `otter ${i}`));

      assert.equal((await find(tenant, "otter", 7)).length, 7);
    });

    test("long logs and many threads are indexed in batches, also by several at once", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "long", ...Array.from({ length: 150 }, (_, i) => `badger ${i}`));
      for (let i = 0; i < 40; i++) await say(store, tenant, `short-${i}`, `badger in thread ${i}`);

      const others = [running.another(), running.another(), store];
      const finished = await Promise.all(others.map((each) => indexEvents(each, 1000, env)));

      assert.deepEqual(finished, [true, true, true]);
      const found = await find(tenant, "badger", 1000);
      assert.equal(found.length, 190);
      assert.equal(new Set(found).size, 190);
    });

    test("indexing stops at its number of batches and reports that some are left", async () => {
      const tenant = freshTenant();
      await indexEvents(store, 1000, env);
      await say(store, tenant, "t", ...Array.from({ length: 100 }, (_, i) => `heron ${i}`));

      assert.equal(await indexEvents(store, 1, env), false);
      assert.equal(await indexEvents(store, 1, env), true);
      assert.equal(await indexEvents(store, 1, env), true);
    });

    test("a batch ends at its limit of words or bytes, and has one message at least", async () => {
      await indexEvents(store, 1000, env);

      for (const long of ["東".repeat(20_000), "x".repeat(256 * 1024)]) {
        const tenant = freshTenant();
        await say(store, tenant, "t1", `stork 1 ${long}`, `stork 2 ${long}`);
        await say(store, tenant, "t2", "stork 3");

        assert.equal(await indexEvents(store, 1, env), false);
        assert.equal(await indexEvents(store, 1, env), false);
        assert.equal(await indexEvents(store, 1, env), true);
        assert.deepEqual((await find(tenant, "stork")).map((content) => content.slice(0, 7)).toSorted(), [
          "stork 1",
          "stork 2",
          "stork 3",
        ]);
      }
    });

    test("a search waits for 32 batches of any size, and the rest is found later", async () => {
      const tenant = freshTenant();
      await say(store, tenant, "t", ...Array.from({ length: 33 }, (_, i) => `plover ${i} ${"東".repeat(20_000)}`));

      const [atOnce, withNext] = [await find(tenant, "plover", 100), await find(tenant, "plover", 100)];

      assert.deepEqual([atOnce.length, withNext.length], [32, 33]);
    });

    test("a text of too many different words is indexed in part, and blocks none after it", async () => {
      const tenant = freshTenant();
      const signs = [0x4e00, 0x3400, 0x20000].flatMap((from) => Array.from({ length: 20_000 }, (_, i) => from + i));
      const every = signs.map((sign) => String.fromCodePoint(sign)).join("");
      await say(store, tenant, "t", `gannet ${every}`, "gannet");

      assert.equal(await indexEvents(store, 1000, env), true);
      assert.equal((await find(tenant, "gannet")).length, 2);
      assert.equal((await find(tenant, "一")).length, 1);
    });

    test("other work gets turns while a long message is split into words", async () => {
      await indexEvents(store, 1000, env);
      await say(store, freshTenant(), "t", "東".repeat(100_000));
      let turns = 0;
      const counting: Env = {
        ...env,
        defer(work) {
          turns++;
          env.defer(work);
        },
      };

      await indexEvents(store, 1, counting);

      assert.ok(turns >= 20, `${turns} turns`);
    });

    test("a deleted thread is not found any more, and its neighbours are", async () => {
      const tenant = freshTenant();
      const scope = store.tenant(tenant);
      const key = await say(store, tenant, "gone", "a secret ibis", "another ibis");
      await say(store, tenant, "stays", "the last ibis");
      assert.equal((await find(tenant, "ibis")).length, 3);

      await scope.write([
        deleteWordsOp(scope, key),
        deleteEventsOp(scope, key),
        deleteThreadOp(scope, { thread_key: key, epoch: 0 }),
      ]);

      assert.deepEqual(await find(tenant, "ibis"), ["the last ibis"]);
      assert.deepEqual(await find(tenant, "secret"), []);
    });

    test("a tenant cannot delete or replace another's words", async () => {
      const [mine, theirs] = [freshTenant(), freshTenant()];
      const key = await say(store, theirs, "t", "a puffin");
      assert.deepEqual(await find(theirs, "puffin"), ["a puffin"]);

      await store.tenant(mine).write([deleteWordsOp(store.tenant(mine), key)]);

      assert.deepEqual(await find(theirs, "puffin"), ["a puffin"]);
    });

    test("a text of any size is indexed by its beginning", async () => {
      const tenant = freshTenant();
      const unique = Array.from({ length: 30_000 }, (_, i) => i.toString(36)).join(" ");
      await say(store, tenant, "t", `begin ${unique} ${"x".repeat(200_000)} finish`, `${"y".repeat(5000)} tapir`);

      assert.equal((await find(tenant, "begin")).length, 1);
      assert.equal((await find(tenant, "finish")).length, 0);
      assert.equal((await find(tenant, "tapir")).length, 1);
      assert.equal((await find(tenant, "y".repeat(5000))).length, 1);
    });
  });
}

test("words are letters and digits without case and accents, and nothing else", () => {
  assert.deepEqual(searchWords("Crème BRÛLÉE—№5, it’s x2!"), ["creme", "brulee", "no5", "it", "s", "x2"]);
  assert.deepEqual(searchWords("東京 is 大きい"), ["東", "京", "is", "大", "き", "い"]);
  assert.deepEqual(searchWords(`e${"\u0301\u0316".repeat(50_000)}`), ["e"]);
  assert.equal(searchWords("㌀".repeat(100_000)).length, 100_000);
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
      for (const word of searchWords(text)) assert.match(word, /^[\p{L}\p{N}]{1,200}$/u);
    }),
  );
});
