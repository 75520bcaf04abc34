// Long histories: reading one blocks an HTTP thread for a page at a time, however much is requested.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import { eventPages } from "../../http/active-branch.ts";
import { historyPieces, historyWindow } from "../../http/history.ts";
import { appendOp, type LogEvent } from "../../storage/tables/events.ts";
import { insertThreadOp, reserveThreadKeys } from "../../storage/tables/threads.ts";
import { threadRow } from "../support/rows.ts";
import { startServer } from "../support/server.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const head = { thread_id: "acme:t", oldest_seq: 0, has_more: false };
const event = (seq: number, content: string, kind = "message"): LogEvent =>
  ({ seq, parent_seq: seq - 1, ts: 1, kind, role: "user", content, extra: null }) as LogEvent;

async function piecesOf(...pages: LogEvent[][]): Promise<string[]> {
  const pieces: string[] = [];
  for await (const piece of historyPieces(head, async function* () {
    yield* pages;
  }))
    pieces.push(piece);
  return pieces;
}

describe("the answer of a history", () => {
  const item = (seq: number, content: string) => ({ role: "user", content, seq, kind: "message" });

  for (const [what, pages, items] of [
    ["no event", [], []],
    ["one page", [[event(0, "a"), event(1, "b")]], [item(0, "a"), item(1, "b")]],
    ["pages", [[event(0, "a")], [event(1, "b")], [event(2, "c")]], [item(0, "a"), item(1, "b"), item(2, "c")]],
    ["pages of intents alone", [[event(0, "", "tool_call")], [event(1, "b")], [event(2, "", "audit")]], [item(1, "b")]],
  ] as const)
    test(`of ${what} is JSON with the list under both names`, async () => {
      const pieces = await piecesOf(...pages.map((page) => [...page]));

      assert.deepEqual(JSON.parse(pieces.join("")), { ...head, messages: items, events: items });
    });

  test("is never held as a whole: no piece has more than a page", async () => {
    const page = "x".repeat(10_000);

    const pieces = await piecesOf(...Array.from({ length: 50 }, (_, seq) => [event(seq, page)]));

    assert.ok(pieces.every(({ length }) => length < 2 * page.length));
  });
});

test("reads pages of a log in separate turns of the event loop", async (t) => {
  const { store } = await testStore("sqlite", cleanup(t));
  const tenant = store.tenant("acme");
  const key = await reserveThreadKeys(store.system, 1);
  const count = 8;
  const { seq: _seq, ...stored } = event(0, "x".repeat(200_000));
  await tenant.write([
    insertThreadOp(tenant, { ...threadRow(key, "t"), next_seq: count, leaf_seq: count - 1 }),
    ...Array.from({ length: count }, (_, seq) => appendOp(tenant, key, { ...stored, seq, parent_seq: seq - 1 })),
  ]);
  const window = await historyWindow(tenant, key, [{ from: 0, to: count }], count);
  let turns = 0;
  let over = false;
  const turn = () => {
    turns++;
    if (!over) setImmediate(turn);
  };
  setImmediate(turn);

  const seenAt: number[] = [];
  for await (const page of eventPages({ env: systemEnv() }, tenant, key, window)) {
    assert.equal(page.length, 1);
    seenAt.push(turns);
  }
  over = true;

  assert.equal(seenAt.length, count);
  assert.equal(new Set(seenAt).size, count, `turns of the event loop: ${seenAt}`);
});

test("with many pages arrives complete, in pieces", async (t) => {
  const server = await startServer({ atEnd: cleanup(t) });
  await server.post("/chat", { manifest: "quick", thread_id: "long", messages: [{ role: "user", content: "hi" }] });
  const texts = Array.from({ length: 6 }, (_, at) => `${at} ${"\n".repeat(100_000)}`);
  for (const content of texts) await server.post("/chat/sessions/custom", { thread_id: "long", content });

  const { headers, json } = await server.get("/chat/history/long");

  assert.equal(headers["transfer-encoding"], "chunked");
  assert.deepEqual(
    json.messages.slice(-texts.length).map(({ content }: { content: string }) => content),
    texts,
  );
  assert.deepEqual(json.events, json.messages);
  assert.deepEqual([json.thread_id, json.oldest_seq, json.has_more], ["default:long", 0, false]);
});
