// Answers that exist before the client has sent its whole body. The client receives them, and an endless body is cut
// off.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { lingerBytesMax } from "../../http/engines/lingering.ts";
import { assertUnharmed } from "../security/support.ts";
import { RawConnection, rawRequest } from "../support/raw-http.ts";
import { apiKeys, type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({ all: { scopes: ["*"] }, weak: { scopes: ["other:read"] } });
const mib = 1024 * 1024;
const credential = { authorization: `Bearer ${keys.all}` };
const jsonType = { "content-type": "application/json" };

/** Requests that are refused by their heads, with the reason. */
const refused: Readonly<Record<string, readonly [path: string, headers: Record<string, string>, status: number]>> = {
  "too long a body": ["/chat", { ...credential, ...jsonType }, 413],
  "no credentials": ["/chat", jsonType, 401],
  "a page that may not": ["/chat", { ...credential, ...jsonType, origin: "https://evil.example.com" }, 403],
  "a path that is not there": ["/no/such/path", { ...credential, ...jsonType }, 404],
  "a method that is not there": ["/audit", { ...credential, ...jsonType }, 405],
};

/** A body in pieces, so that it has no declared length. */
async function* inPieces(bytes: number): AsyncGenerator<Uint8Array> {
  const piece = Buffer.alloc(64 * 1024, "a");
  for (let sent = 0; sent < bytes; sent += piece.length) yield piece;
}

describe("an answer to a client that is still sending", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  before(async () => {
    server = await startServerProcess({ atEnd, env });
  });

  for (const [what, [path, headers, status]] of Object.entries(refused)) {
    for (const bytes of [mib + 1, 12 * mib]) {
      test(`ERR-001 reaches fetch ${what} with ${Math.round(bytes / mib)} MiB to send`, async () => {
        // A body larger than the socket's buffers is still being sent when the answer comes.
        for (let round = 0; round < 5; round++) {
          const whole = await fetch(server.url + path, { method: "POST", headers, body: "a".repeat(bytes) });
          const body = await whole.text();
          const pieces = await fetch(server.url + path, {
            method: "POST",
            headers,
            body: ReadableStream.from(inPieces(bytes)),
            duplex: "half",
          });
          await pieces.text();

          // A declared length is checked before the caller and after the origin.
          assert.equal(whole.status, status === 403 ? 403 : 413, body);
          assert.equal(pieces.status, status);
          assert.equal(whole.headers.get("x-content-type-options"), "nosniff");
        }
      });
    }
  }

  test("is complete before the body is, and the connection ends with the body", async () => {
    const connection = new RawConnection(server.url);
    await connection.send(rawRequest("POST", "/chat", [`content-length: ${2 * mib}`]));
    const answer = await connection.answer();
    assert.ok(!connection.over);
    await connection.send(Buffer.alloc(2 * mib, "a"));
    await connection.send(rawRequest("GET", "/health"));
    await connection.closed;

    assert.deepEqual([answer?.status, answer?.body], [413, '{"error":"payload_too_large"}']);
    assert.equal(answer?.headers.connection, "close");
    assert.equal(connection.unread, "");
    await assertUnharmed(server);
  });

  test("leaves the connection open if the body has arrived completely", async () => {
    const connection = new RawConnection(server.url);
    await connection.send(rawRequest("POST", "/chat", [], "{}"));
    const first = await connection.answer();
    await connection.send(rawRequest("GET", "/health"));
    const second = await connection.answer();
    connection.close();

    assert.deepEqual([first?.status, second?.status], [401, 200]);
    assert.equal(first?.headers.connection, undefined);
  });

  for (const [framing, lines, piece] of [
    ["declared", [`content-length: ${1024 * mib}`], Buffer.alloc(64 * 1024, "a")],
    ["in chunks", ["transfer-encoding: chunked"], Buffer.from(`10000\r\n${"a".repeat(64 * 1024)}\r\n`)],
  ] as const) {
    test(`reaches a client that never ends its body, ${framing}, and closes its connection`, async () => {
      const connection = new RawConnection(server.url);
      await connection.send(rawRequest("POST", "/chat", [...lines]));
      let sentBytes = 0;
      for (; !connection.over && sentBytes < 16 * lingerBytesMax; sentBytes += piece.length) {
        await connection.send(piece);
        // The system may accept every piece at once; yield, or the answer would be cut off unread.
        await nextTurn();
      }
      const answer = await connection.answer();
      await connection.closed;

      assert.ok(answer?.status === 413 || answer?.status === 401, answer?.head);
      assert.ok(sentBytes > lingerBytesMax && sentBytes < 4 * lingerBytesMax, `${sentBytes} bytes`);
      await assertUnharmed(server);
    });
  }

  test("closes the connection of a client that stops sending", async () => {
    const connection = new RawConnection(server.url);
    await connection.send(rawRequest("POST", "/chat", [`content-length: ${2 * mib}`]));
    const answers = await connection.answers();

    assert.deepEqual(
      answers.map(({ status }) => status),
      [413],
    );
  });
});
