// Pages of a log are bounded in bytes too, so a thread of long messages is never held in memory whole.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import {
  appendOp,
  type LogEvent,
  newestRecord,
  readEvents,
  readEventsBefore,
  windowStart,
} from "../../storage/tables/events.ts";
import { reserveThreadKeys } from "../../storage/tables/threads.ts";
import { dialects, testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const kiB = 1024;

function event(seq: number, content: string, extra: LogEvent["extra"] = null): LogEvent {
  return { seq, parent_seq: seq - 1, ts: 1, kind: "message", role: "user", content, extra };
}

for (const dialect of dialects) {
  describe(`pages of events on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let tenant: TenantStore;
    before(async () => {
      ({ store } = await testStore(dialect, atEnd));
      tenant = store.tenant("pages");
    });

    async function threadOf(...contents: readonly string[]): Promise<number> {
      const key = await reserveThreadKeys(store.system, 1);
      await tenant.write(contents.map((content, seq) => appendOp(tenant, key, event(seq, content))));
      return key;
    }

    async function pagesOf(key: number, to: number): Promise<number[]> {
      const lengths: number[] = [];
      for (let seq = 0; seq < to; ) {
        const page = await readEvents(tenant, key, seq, to);
        assert.deepEqual(
          page.map((each) => each.seq),
          page.map((_, at) => seq + at),
        );
        lengths.push(page.length);
        seq += page.length;
      }
      return lengths;
    }

    test("COM-023 the newest record of a type is found, and arguments that look like one are none", async () => {
      const key = await reserveThreadKeys(store.system, 1);
      const audit = (seq: number, metadata: Record<string, unknown>): LogEvent => ({
        ...event(seq, "", { metadata }),
        ...{ kind: "audit", role: null },
      });
      const forged = { tool_calls: [{ id: "1", name: "x", args: { record: "cart", items: [] } }] };
      const events = [
        audit(0, { record: "cart", items: [1] }),
        audit(1, { record: "cart", items: [2] }),
        audit(2, { record: "other" }),
        audit(3, { type: "member", member: "agent", inner: forged }),
        event(4, '"record":"cart"', { metadata: { record: "cart" } }),
      ];
      await tenant.write(events.map((one) => appendOp(tenant, key, one)));

      const found = await Promise.all(["cart", "other", "none"].map((type) => newestRecord(tenant, key, type)));

      assert.deepEqual(
        found.map((one) => one?.seq),
        [1, 2, undefined],
      );
    });

    test("a page ends with the event beyond 512 KiB, and all pages have every event once", async () => {
      const long = await threadOf(...Array.from({ length: 20 }, () => "x".repeat(200 * kiB)));
      const mixed = await threadOf("a", "b", "c", "x".repeat(900 * kiB), "d", "e", "f", "g", "h", "i");

      assert.deepEqual(await pagesOf(long, 20), [3, 3, 3, 3, 3, 3, 2]);
      assert.deepEqual(await pagesOf(mixed, 10), [4, 6]);
    });

    test("pages from the end have the same bound, one event at least, and every event once", async () => {
      const long = await threadOf(...Array.from({ length: 20 }, () => "x".repeat(200 * kiB)));
      const mixed = await threadOf("a", "b", "x".repeat(900 * kiB), "c", "d", "e", "f", "g", "h");
      const pagesBefore = async (key: number, to: number): Promise<number[][]> => {
        const pages: number[][] = [];
        for (let before = to; before > 0; before = pages.at(-1)?.at(-1) ?? 0)
          pages.push((await readEventsBefore(tenant, key, before)).map(({ seq }) => seq));
        return pages;
      };

      const pages = await pagesBefore(long, 20);
      assert.deepEqual(
        pages.map(({ length }) => length),
        [2, 2, 2, 2, 2, 2, 2, 2, 2, 2],
      );
      assert.deepEqual(
        pages.flat(),
        Array.from({ length: 20 }, (_, at) => 19 - at),
      );
      assert.deepEqual(await pagesBefore(mixed, 9), [[8, 7, 6, 5, 4, 3], [2], [1, 0]]);
      assert.equal((await readEventsBefore(tenant, mixed, 9, 2)).length, 2);
    });

    test("length is counted in bytes, including fields other than the content", async () => {
      const wide = await threadOf(...Array.from({ length: 6 }, () => "世".repeat(100 * kiB)));
      const key = await reserveThreadKeys(store.system, 1);
      const metadata = { filler: "x".repeat(300 * kiB) };
      await tenant.write(Array.from({ length: 6 }, (_, seq) => appendOp(tenant, key, event(seq, "", { metadata }))));

      assert.equal((await readEvents(tenant, wide, 0, 6)).length, 2);
      assert.equal((await readEvents(tenant, key, 0, 6)).length, 2);
    });

    test("a window starts at its count or length, and has its newest event of any length", async () => {
      const key = await threadOf(...Array.from({ length: 700 }, (_, seq) => "x".repeat(seq < 690 ? 10 : kiB)));
      const start = async (to: number, count: number, bytes: number, from = 0) =>
        (await windowStart(tenant, key, { from, to }, count, bytes)).start;

      assert.equal(await start(700, 5000, 1024 * kiB), 0);
      assert.equal(await start(700, 3, 1024 * kiB), 697);
      assert.equal(await start(700, 600, 1024 * kiB), 100);
      assert.equal(await start(700, 5000, 4 * kiB), 696);
      assert.equal(await start(690, 5000, 65), 684);
      assert.equal(await start(700, 5000, 1), 699);
      assert.equal(await start(0, 5000, 1), 0);
      assert.equal(await start(700, 5000, 1024 * kiB, 650), 650);
      assert.deepEqual(await windowStart(tenant, key, { from: 688, to: 692 }, 9, 5 * kiB), {
        start: 688,
        bytes: 20 + 2 * kiB,
      });
    });
  });
}
