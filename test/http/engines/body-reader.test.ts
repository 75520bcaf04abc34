// Request bodies: bytes that arrive before the route is known, and after.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { BodyReader } from "../../../http/engines/body-reader.ts";

const miB = 1024 * 1024;

/** Passes a piece as uWebSockets.js does: its memory is reused after the call. */
function lend(body: BodyReader, bytes: Uint8Array, isLast: boolean): void {
  const lent = new Uint8Array(bytes);
  body.take(lent.buffer, isLast);
  lent.fill(0xff);
}

const tooLarge = { code: "payload_too_large" };

describe("a body", () => {
  test("equals the sent bytes, however they are cut and whenever they are read", async () => {
    const cut = fc.array(fc.uint8Array({ maxLength: 20 }), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(cut, fc.nat(8), async (pieces, askedAt) => {
        const body = new BodyReader();
        let read: Promise<Buffer> | null = null;

        for (const [at, piece] of pieces.entries()) {
          if (at === askedAt) read = body.read(1000);
          assert.equal(body.complete, false);
          lend(body, piece, at === pieces.length - 1);
        }
        read ??= body.read(1000);

        assert.equal(body.complete, true);
        assert.deepEqual(
          [...(await read)],
          pieces.flatMap((piece) => [...piece]),
        );
      }),
      { seed: 11 },
    );
  });

  test("is accepted up to the limit of its route, and refused with one byte more", async () => {
    for (const [bytes, fits] of [
      [100, true],
      [101, false],
    ] as const)
      for (const first of [true, false]) {
        const body = new BodyReader();
        const read = first ? body.read(100) : null;
        lend(body, new Uint8Array(60), false);
        lend(body, new Uint8Array(bytes - 60), true);

        const asked = read ?? body.read(100);

        if (fits) assert.equal((await asked).length, bytes);
        else await assert.rejects(asked, tooLarge);
      }
  });

  test("is refused as soon as it is too large, before its end", async () => {
    const body = new BodyReader();
    const read = body.read(100);

    lend(body, new Uint8Array(101), false);

    await assert.rejects(read, tooLarge);
    assert.equal(body.complete, false);
  });
});

describe("before the route is known", () => {
  test("12 MiB are kept", async () => {
    const body = new BodyReader();
    for (let at = 0; at < 12; at++) lend(body, new Uint8Array(miB).fill(at), at === 11);

    const bytes = await body.read(12 * miB);

    assert.deepEqual([bytes.length, bytes[0], bytes.at(-1)], [12 * miB, 0, 11]);
  });

  test("bytes above the limit are dropped, and no route gets a partial body", async () => {
    const body = new BodyReader();
    const before = process.memoryUsage().arrayBuffers;
    const piece = new ArrayBuffer(miB);
    for (let at = 0; at < 200; at++) body.take(piece, at === 199);

    const kept = process.memoryUsage().arrayBuffers - before;

    assert.ok(kept <= 16 * miB, `${kept} bytes are kept`);
    for (const maxBytes of [12 * miB, 200 * miB]) await assert.rejects(body.read(maxBytes), tooLarge);
  });
});
