// A backlog is encoded once for all its readers, whether they read, stall, leave, or belong to another tenant.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import type { Ticket } from "../../../bus/queues/fair-queue.ts";
import { type BacklogReader, Backlogs } from "../../../http/backlog/backlogs.ts";
import { type PageMaker, pieceBytes } from "../../../http/backlog/shared-pages.ts";
import { gate } from "../../support/chat.ts";

const miB = 2 ** 20;
/** Waits for more turns of the event loop than any step here takes, however long each turn is. */
const settled = async (): Promise<void> => {
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
};

/** Encodes pages of its own text and counts them. */
class Maker implements PageMaker {
  readonly first = 0;
  readonly made: number[] = [];
  atWork = 0;
  mostAtWork = 0;
  readonly #pages: readonly string[];
  readonly #wait: Promise<void> | undefined;

  constructor(pages: readonly string[], wait?: Promise<void>) {
    this.#pages = pages;
    this.#wait = wait;
  }

  async make(from: number) {
    this.made.push(from);
    await this.#wait;
    return { text: this.#pages[from] as string, next: from + 1 < this.#pages.length ? from + 1 : null };
  }
}

/** A reader with its ticket. */
function open(
  backlogs: Backlogs,
  state: string,
  maker: PageMaker,
  tenant = "acme",
): { ticket: Ticket; reader: BacklogReader } {
  const ticket = backlogs.ticket(tenant);
  return { ticket, reader: backlogs.read(ticket, state, () => maker) };
}

async function readAll({ ticket, reader }: { ticket: Ticket; reader: BacklogReader }): Promise<string> {
  const pieces: Uint8Array[] = [];
  for (let piece = await reader.next(); piece !== null; piece = await reader.next()) {
    assert.ok(piece.length <= pieceBytes, `${piece.length} bytes at once`);
    pieces.push(piece);
  }
  reader.close();
  ticket.leave();
  return Buffer.concat(pieces).toString();
}

const letters = (count: number, bytes: number) =>
  Array.from({ length: count }, (_, at) => String.fromCharCode(97 + (at % 26)).repeat(bytes));

describe("backlogs", () => {
  test("make each page once for all readers of a state, and cache nothing after them", async () => {
    const backlogs = new Backlogs(systemEnv(), 256 * miB);
    const pages = ["é".repeat(100_000), ...letters(3, 70_000)];
    const maker = new Maker(pages);
    const readers = Array.from({ length: 50 }, () => open(backlogs, "state", maker));

    const texts = await Promise.all(readers.map(readAll));

    assert.ok(texts.every((text) => text === pages.join("")));
    assert.deepEqual(maker.made, [0, 1, 2, 3]);
    assert.deepEqual(
      [backlogs.takeMadeCount(), backlogs.takeMadeCount(), backlogs.bytes, backlogs.waiting],
      [4, 0, 0, 0],
    );
  });

  test("make pages anew for another state, and for a state without readers", async () => {
    const backlogs = new Backlogs(systemEnv(), 256 * miB);
    const [one, two] = [new Maker(["one"]), new Maker(["two"])];
    const both = [open(backlogs, "state 1", one), open(backlogs, "state 2", two)];
    assert.deepEqual(await Promise.all(both.map(readAll)), ["one", "two"]);

    const later = new Maker(["later"]);
    assert.equal(await readAll(open(backlogs, "state 1", later)), "later");
  });

  test("cache pages for readers that are still queued", async () => {
    const backlogs = new Backlogs(systemEnv(), 256 * miB);
    const maker = new Maker(letters(2, 1_000));
    const inLine = backlogs.ticket("acme");
    await inLine.turn();
    await readAll(open(backlogs, "state", maker));
    assert.equal(backlogs.bytes, 2_000);

    await readAll({ ticket: inLine, reader: backlogs.read(inLine, "state", () => maker) });

    assert.deepEqual([maker.made, backlogs.bytes], [[0, 1], 0]);
  });

  test("cache at most their bound; an evicted page is made again, byte for byte", async () => {
    const bound = 4 * miB;
    const backlogs = new Backlogs(systemEnv(), bound);
    const pages = letters(40, 60_000);
    const maker = new Maker(pages);
    const slow = open(backlogs, "state", maker);
    const first = Buffer.from((await slow.reader.next()) as Uint8Array).toString();

    const text = await readAll(open(backlogs, "state", maker));
    assert.ok(backlogs.bytes > 0 && backlogs.bytes <= bound / 4, `${backlogs.bytes} bytes are kept`);
    const rest = await readAll(slow);

    assert.equal(text, pages.join(""));
    assert.equal(first + rest, text);
    assert.ok(maker.made.length > 40, "some were made again");
    assert.equal(backlogs.bytes, 0);
  });

  test("evict the least recently requested page first", async () => {
    const backlogs = new Backlogs(systemEnv(), 4 * miB);
    // Pages stay cached while any reader is in the queue.
    await backlogs.ticket("acme").turn();
    const makers = new Map(["a", "b", "c"].map((state) => [state, new Maker([state.repeat(400_000)])]));
    const read = (state: string) => readAll(open(backlogs, state, makers.get(state) as Maker));

    // There is room for two of the three.
    for (const state of ["a", "b", "a", "c", "a", "b"]) await read(state);

    assert.deepEqual(
      [...makers.values()].map(({ made }) => made.length),
      [1, 2, 1],
    );
  });

  test("are passed on but not cached if they exceed the size limit", async () => {
    const backlogs = new Backlogs(systemEnv(), 256 * 1024);
    const maker = new Maker(letters(2, 100_000));

    const one = open(backlogs, "state", maker);
    const first = Buffer.from((await one.reader.next()) as Uint8Array).toString();
    assert.equal(backlogs.bytes, 0);
    const rest = await readAll(one);

    assert.equal(first + rest, letters(2, 100_000).join(""));
    assert.ok(maker.made.length > 2, "they were made again for their other pieces");
  });

  test("hold a bounded number of untaken pieces; another tenant is not delayed", async () => {
    // There is room for four pieces.
    const backlogs = new Backlogs(systemEnv(), 8 * pieceBytes);
    const maker = new Maker(letters(3, 1_000));
    const stalled = Array.from({ length: 20 }, (_, at) => open(backlogs, `state ${at}`, maker, "crowd"));
    let given = 0;
    for (const { reader } of stalled)
      void reader.next().then((piece) => {
        if (piece !== null) given++;
      });
    await settled();
    assert.deepEqual([given, backlogs.waiting], [4, 16]);

    const other = await readAll(open(backlogs, "other", new Maker(letters(3, 100_000)), "single"));

    assert.equal(other.length, 300_000);
    assert.deepEqual([given, backlogs.waiting], [4, 16]);
    for (const { reader, ticket } of stalled) {
      reader.close();
      ticket.leave();
      await settled();
    }
    assert.deepEqual([backlogs.waiting, backlogs.bytes], [0, 0]);
  });

  test("encode few pages at a time, and none without a reader", async () => {
    const backlogs = new Backlogs(systemEnv(), 256 * miB);
    const held = gate();
    const makers = Array.from({ length: 12 }, () => new Maker(["x"], held.opened));
    const readers = makers.map((maker, at) => open(backlogs, `state ${at}`, maker));
    const read = readers.map(({ reader }) => reader.next());
    await settled();
    assert.equal(makers.filter(({ made }) => made.length > 0).length, 4);

    // Two readers left while queued; one left as the only reader of a page in progress.
    for (const { reader, ticket } of [readers[0], readers[5], readers[6]].filter((each) => each !== undefined)) {
      reader.close();
      ticket.leave();
    }
    held.open();
    const pieces = await Promise.all(read);

    assert.deepEqual(
      pieces.map((piece) => piece === null),
      makers.map((_, at) => [0, 5, 6].includes(at)),
    );
    assert.deepEqual(
      makers.map(({ made }) => made.length),
      makers.map((_, at) => ([5, 6].includes(at) ? 0 : 1)),
    );
  });

  test("make a page for the remaining reader if another one leaves the queue", async () => {
    const backlogs = new Backlogs(systemEnv(), 256 * miB);
    const held = gate();
    for (let at = 0; at < 4; at++) void open(backlogs, `holding ${at}`, new Maker(["x"], held.opened)).reader.next();
    const maker = new Maker(["wanted"]);
    const [leaves, stays] = [open(backlogs, "state", maker), open(backlogs, "state", maker)];
    const got = [leaves.reader.next(), stays.reader.next()];
    await settled();

    leaves.reader.close();
    leaves.ticket.leave();
    held.open();

    assert.deepEqual(
      (await Promise.all(got)).map((piece) => piece && Buffer.from(piece).toString()),
      [null, "wanted"],
    );
  });

  test("report a failed page to all its readers, and retry for the next one", async () => {
    const backlogs = new Backlogs(systemEnv(), 256 * miB);
    let fails = true;
    const maker: PageMaker = {
      first: 0,
      async make() {
        if (fails) throw new Error("no store");
        return { text: "there", next: null };
      },
    };
    const readers = [open(backlogs, "state", maker), open(backlogs, "state", maker)];

    const failed = await Promise.allSettled(readers.map(({ reader }) => reader.next()));
    fails = false;

    assert.deepEqual(
      failed.map(({ status }) => status),
      ["rejected", "rejected"],
    );
    assert.deepEqual(await Promise.all(readers.map(readAll)), ["there", "there"]);
  });
});
