// Threat 23: bytes that are not a request, or whose end two parsers see at different places. The server refuses them or
// closes the connection, and other clients notice nothing.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import { startChatProcess, turn as turnOf } from "../support/chat.ts";
import { runs } from "../support/effort.ts";
import { eventually } from "../support/eventually.ts";
import { oneChunk, type RawAnswer, RawConnection, rawRequest } from "../support/raw-http.ts";
import { httpEngine, type ProcessServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";
import { assertRssBelow, assertUnharmed, metric, untilMetric } from "./support.ts";

const turn = JSON.stringify(turnOf("talk", "hi"));
/** Bytes at the place of the next request, if the previous one ended where an attacker claims. */
const smuggled = rawRequest("GET", "/live", ["x-request-id: smuggled"]);

/** Requests with two declared ends, or with an invalid one. */
const twoEnds: Readonly<Record<string, string>> = {
  "a length and chunks": rawRequest(
    "POST",
    "/chat",
    ["content-length: 5", "transfer-encoding: chunked"],
    oneChunk(turn),
  ),
  "chunks and a length": rawRequest(
    "POST",
    "/chat",
    ["transfer-encoding: chunked", "content-length: 5"],
    oneChunk(turn),
  ),
  "two equal lengths": rawRequest("POST", "/chat", ["content-length: 2", "content-length: 2"], "{}"),
  "a short and a long length": rawRequest("POST", "/chat", ["content-length: 2", "content-length: 90"], "{}"),
  "a long and a short length": rawRequest("POST", "/chat", ["content-length: 90", "content-length: 2"], "{}"),
  "two lengths of a GET": rawRequest("GET", "/health", ["content-length: 2", "content-length: 90"], "{}"),
  "lengths in a list": rawRequest("POST", "/chat", ["content-length: 2, 2"], "{}"),
  "chunks twice": rawRequest(
    "POST",
    "/chat",
    ["transfer-encoding: chunked", "transfer-encoding: chunked"],
    oneChunk(turn),
  ),
  "chunks, then identity": rawRequest(
    "POST",
    "/chat",
    ["transfer-encoding: chunked", "transfer-encoding: identity"],
    oneChunk(turn),
  ),
  "chunks of gzip": rawRequest("POST", "/chat", ["transfer-encoding: gzip, chunked"], oneChunk(turn)),
  "chunks that are not last": rawRequest("POST", "/chat", ["transfer-encoding: chunked, identity"], oneChunk(turn)),
  "a coding that nobody knows": rawRequest("POST", "/chat", ["transfer-encoding: xchunked"], oneChunk(turn)),
  "the coding identity": rawRequest("POST", "/chat", ["transfer-encoding: identity"], turn),
  "an empty coding and a length": rawRequest("POST", "/chat", ["transfer-encoding:", "content-length: 2"], "{}"),
  "a quoted coding": rawRequest("POST", "/chat", ['transfer-encoding: "chunked"'], oneChunk(turn)),
  "a coding of a GET": rawRequest("GET", "/health", ["transfer-encoding: xchunked"], oneChunk(turn)),
};

/** Invalid lengths. */
const lengths = ["-1", "+2", "0x2", "2e0", "2.0", "", "two", "2;", "1".repeat(25), String(2n ** 64n + 2n), "\u00b2"];

/** Invalid or absurd chunk sizes. */
const chunkSizes = ["zz", "-2", "+2", "0x2", "f".repeat(18), "7fffffffffffffff", "10000000000000002", " ", "2 2", "\0"];

/** Malformed heads. */
const brokenHeads: Readonly<Record<string, string>> = {
  "lines that end in LF": "GET /health HTTP/1.1\nhost: localhost\n\n",
  "one header that ends in LF": "GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: b\nx-b: c\r\n\r\n",
  "a CR inside a header": "GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: b\rx-b: c\r\n\r\n",
  "a header that goes on in the next line": "GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: b\r\n c\r\n\r\n",
  "a first header that is indented": "GET /health HTTP/1.1\r\n host: localhost\r\n\r\n",
  "a blank before the colon": "POST /chat HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n",
  "a header without a colon": "GET /health HTTP/1.1\r\nhost: localhost\r\nnothing\r\n\r\n",
  "a NUL in a header": "GET /health HTTP/1.1\r\nhost: localhost\r\nx-request-id: a\0b\r\n\r\n",
  "a NUL in a header's name": "GET /health HTTP/1.1\r\nhost: localhost\r\nx-\0a: b\r\n\r\n",
  "a NUL in the path": "GET /hea\0lth HTTP/1.1\r\nhost: localhost\r\n\r\n",
  "a blank in the path": "GET /hea lth HTTP/1.1\r\nhost: localhost\r\n\r\n",
  "no version": "GET /health\r\nhost: localhost\r\n\r\n",
  "HTTP/0.9": "GET /health\r\n\r\n",
  "HTTP/9.9": "GET /health HTTP/9.9\r\nhost: localhost\r\n\r\n",
  "the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "no host": "GET /health HTTP/1.1\r\n\r\n",
  // Well-formed for most servers, and refused by uWebSockets.js.
  ...(httpEngine === "uws" && {
    "HTTP/1.0": "GET /health HTTP/1.0\r\nhost: localhost\r\n\r\n",
    "an empty line before the request": "\r\n\r\nGET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
  }),
  "a path of 100,000 characters": `GET /${"a".repeat(100_000)} HTTP/1.1\r\nhost: localhost\r\n\r\n`,
  "a header of a million characters": `GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: ${"a".repeat(1_000_000)}\r\n\r\n`,
  "a header's name of a million characters": `GET /health HTTP/1.1\r\nhost: localhost\r\n${"a".repeat(1_000_000)}: b\r\n\r\n`,
  "ten thousand headers": `GET /health HTTP/1.1\r\nhost: localhost\r\n${"x-a: b\r\n".repeat(10_000)}\r\n`,
  "a method of a million letters": `${"A".repeat(1_000_000)} /health HTTP/1.1\r\nhost: localhost\r\n\r\n`,
  "a whole URL of another host": "GET http://evil.example.com/health HTTP/1.1\r\nhost: localhost\r\n\r\n",
  "a tunnel": "CONNECT evil.example.com:443 HTTP/1.1\r\nhost: localhost\r\n\r\n",
  "the beginning of TLS": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  "a proxy's own preface": "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nGET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
};

describe("threat 23: framing", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  before(async () => {
    ({ server } = await startChatProcess(atEnd, {
      models: ["mock-text", "mock-hang-between"],
      manifests: { talk: { model: { id: "mock-text" } }, hang: { model: { id: "mock-hang-between" } } },
    }));
  });
  after(() => assertRssBelow(server, 600));

  /** Sends bytes over a new connection. Returns all answers until the server closes it. */
  async function tell(bytes: string): Promise<RawAnswer[]> {
    const connection = new RawConnection(server.url);
    void connection.send(Buffer.from(bytes, "latin1"));
    return connection.answers();
  }

  /** Fails unless the answers are refusals, and at most one. */
  function assertRefused(answers: readonly RawAnswer[]): void {
    assert.ok(answers.length <= 1, answers.map(({ head }) => head).join("\n"));
    for (const { status, head } of answers) assert.ok((status >= 400 && status < 500) || status === 505, head);
  }

  for (const [what, bytes] of Object.entries(twoEnds)) {
    test(`${what}: refused, and the bytes after it are not read as a request`, async () => {
      const alone = await tell(bytes);
      const followed = await tell(bytes + smuggled);

      assertRefused(alone);
      assertRefused(followed);
      await assertUnharmed(server);
    });
  }

  test("a request with an unknown end is refused when no bytes follow it", async () => {
    const [answer] = await tell(twoEnds["chunks of gzip"] as string);

    assert.equal(answer?.status, 400);
    assert.equal(answer?.body, '{"error":"invalid_header","detail":"transfer-encoding is not chunked"}');
    assert.match(String(answer?.headers["x-request-id"]), /^[0-9a-f]{32}$/);
  });

  for (const length of lengths) {
    test(`the length ${JSON.stringify(length.slice(0, 24))} is refused`, async () => {
      assertRefused(await tell(rawRequest("POST", "/chat", [`content-length: ${length}`], "{}") + smuggled));
      await assertUnharmed(server);
    });
  }

  test("random bytes are not a request", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 3000 }), async (bytes) => {
        const connection = new RawConnection(server.url);
        await connection.send(Buffer.concat([bytes, Buffer.from("\r\n\r\n")]));
        connection.finish();

        assertRefused(await connection.answers());
      }),
      { numRuns: runs(100) },
    );
    await assertUnharmed(server);
  });

  for (const method of ["TRACE", "get", "G<>T", "A".repeat(300), "PROPFIND", "DEBUG"]) {
    test(`the method ${method.slice(0, 10)} has no effect that GET lacks`, async () => {
      const connection = new RawConnection(server.url);
      await connection.send(rawRequest(method, "/health"));
      const answer = await connection.answer();
      connection.close();

      // uWebSockets.js accepts any word as a method, in any case; Node's parser knows a fixed list.
      const known = httpEngine === "uws" || method === "TRACE" || method === "PROPFIND";
      assert.equal(answer?.status, !known ? 400 : method === "get" ? 200 : 405);
      assert.ok(!answer?.body.includes("x-echo"));
      await assertUnharmed(server);
    });
  }

  for (const upgrade of ["websocket", "h2c"]) {
    test(`an upgrade to ${upgrade} is an ordinary request`, async () => {
      const connection = new RawConnection(server.url);
      await connection.send(
        rawRequest("GET", "/health", [
          "connection: Upgrade, HTTP2-Settings",
          `upgrade: ${upgrade}`,
          "http2-settings: AAMAAABkAARAAAAAAAIAAAAA",
          "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
          "sec-websocket-version: 13",
        ]),
      );
      const first = await connection.answer();
      await connection.send(rawRequest("GET", "/live", ["x-request-id: after-it"]));
      const second = await connection.answer();
      connection.close();

      assert.deepEqual([first?.status, second?.status], [200, 200]);
      assert.equal(second?.headers["x-request-id"], "after-it");
    });
  }

  test("Expect: 100-continue is confirmed, and the request is answered once", async () => {
    const connection = new RawConnection(server.url);
    await connection.send(rawRequest("POST", "/chat", [`content-length: ${turn.length}`, "expect: 100-continue"], ""));
    const goOn = await connection.answer();
    await connection.send(turn);
    const answer = await connection.answer();
    connection.close();

    assert.deepEqual([goOn?.status, answer?.status], [100, 200]);
  });

  test("a body of a GET is not the next request", async () => {
    for (const body of [
      { lines: [`content-length: ${smuggled.length}`], text: smuggled },
      { lines: ["transfer-encoding: chunked"], text: oneChunk(smuggled) },
    ]) {
      const connection = new RawConnection(server.url);
      await connection.send(
        rawRequest("GET", "/health", body.lines, body.text) + rawRequest("GET", "/live", ["x-request-id: second"]),
      );
      const ids = [await connection.answer(), await connection.answer()].map(
        (answer) => answer?.headers["x-request-id"],
      );
      connection.close();

      assert.match(String(ids[0]), /^[0-9a-f]{32}$/);
      assert.equal(ids[1], "second");
    }
  });

  test("a body above its limit ends the request, with a length or in chunks", async () => {
    const piece = "a".repeat(64 * 1024);
    const chunk = `${piece.length.toString(16)}\r\n${piece}\r\n`;
    const declared = new RawConnection(server.url);
    const chunked = new RawConnection(server.url);
    await declared.send(rawRequest("POST", "/chat", ["content-length: 99999999"], piece));
    await chunked.send(rawRequest("POST", "/chat", ["transfer-encoding: chunked"], ""));
    // Sends until the server stops reading.
    let sent = 0;
    for (; !chunked.over && sent < 1024; sent++) await chunked.send(chunk);

    const answers = await Promise.all([declared.answer(), chunked.answer()]);

    assert.ok(sent < 1024);
    for (const answer of answers) assert.ok(answer === undefined || answer.status === 413, answer?.head);
    assert.equal(answers[0]?.status, 413);
    await assertUnharmed(server);
  });

  test("pipelined requests are answered in order, or the connection is closed", async () => {
    const request = fc.record({
      kind: fc.constantFrom("health", "history", "audit", "turn", "unknown", "refused", "metrics"),
      thread: fc.integer({ min: 0, max: 5 }),
    });
    const pathOf = {
      health: "/health",
      audit: "/audit?limit=1",
      unknown: "/no/such/path",
      refused: "/audit?limit=x",
      metrics: "/metrics",
    };
    const statusOf = { health: 200, history: 200, audit: 200, turn: 200, unknown: 404, refused: 422, metrics: 200 };
    await fc.assert(
      fc.asyncProperty(
        fc.array(request, { minLength: 2, maxLength: 12 }),
        fc.boolean(),
        async (requests, inOnePiece) => {
          const texts = requests.map(({ kind, thread }, at) => {
            const id = [`x-request-id: r${at}`];
            if (kind === "turn")
              return rawRequest("POST", "/chat", id, JSON.stringify(turnOf("talk", `thread ${thread} r${at}`)));
            return rawRequest("GET", kind === "history" ? `/chat/history/pipe-${thread}` : pathOf[kind], id);
          });
          const connection = new RawConnection(server.url);
          if (inOnePiece) await connection.send(texts.join(""));
          else for (const text of texts) await connection.send(text);
          connection.finish();

          const answers = await connection.answers();

          assert.ok(answers.length <= requests.length);
          for (const [at, answer] of answers.entries()) {
            const { kind, thread } = requests[at] as (typeof requests)[number];
            assert.equal(answer.headers["x-request-id"], `r${at}`);
            assert.equal(answer.status, statusOf[kind], answer.body);
            if (kind === "history") assert.ok(answer.body.includes(`"thread_id":"default:pipe-${thread}"`));
            if (kind === "turn") assert.ok(answer.body.includes(`thread ${thread} r${at}`));
          }
        },
      ),
      { numRuns: 60 },
    );
    await assertUnharmed(server);
  });

  test("a request after an open stream does not enter the stream", async () => {
    const connection = new RawConnection(server.url);
    await connection.send(rawRequest("GET", "/chat/stream/quiet", ["x-request-id: stream"]));
    await connection.until('"text":""}\n\n');
    await connection.send(rawRequest("GET", "/health", ["x-request-id: behind"]));
    // uWebSockets.js closes the connection; Node's server waits until the stream ends.
    if (httpEngine === "uws") await connection.closed;
    else for (let others = 0; others < 20; others++) await assertUnharmed(server);
    connection.close();

    assert.match(connection.unread, /^HTTP\/1\.1 200 OK\r\n/);
    assert.ok(!connection.unread.includes("behind") && !connection.unread.includes('"status":"ok"'));
    await assertUnharmed(server);
  });

  for (const [name, path, body] of [
    ["a turn", "/chat", turn],
    ["a streamed turn", "/chat/stream", turn],
    ["a turn whose model has hung", "/chat", JSON.stringify(turnOf("hang", "hi"))],
    ["a streamed turn whose model has hung", "/chat/stream", JSON.stringify(turnOf("hang", "hi"))],
    ["a reattached stream", "/chat/stream/early", null],
    ["an export", "/audit/export", null],
  ] as const) {
    test(`${name} leaves nothing open when its client disconnects at any byte`, async () => {
      const bytes = body === null ? rawRequest("GET", path) : rawRequest("POST", path, [], body);
      const cut = fc.record({
        sent: fc.oneof(fc.integer({ min: 0, max: bytes.length }), fc.constant(bytes.length)),
        leaves: fc.constantFrom("reset", "finish", "close"),
        waits: fc.constantFrom("not", "for the head", "for the body"),
      });
      await fc.assert(
        fc.asyncProperty(cut, async ({ sent, leaves, waits }) => {
          const connection = new RawConnection(server.url);
          await connection.send(bytes.slice(0, sent));
          const hangs = path === "/chat" && body !== turn;
          if (sent === bytes.length && waits !== "not" && !hangs)
            await connection.until(waits === "for the head" ? "HTTP/1.1 200" : "\r\n\r\n");
          if (leaves === "reset") connection.reset();
          else if (leaves === "finish") connection.finish();
          else connection.close();
          // After a half-close, uWebSockets.js drops the connection and Node's server still answers.
          if (leaves === "finish" && httpEngine === "uws") await connection.closed;
          else connection.close();
        }),
        { numRuns: 40 },
      );

      await untilMetric(server, "svc_open_streams", (open) => open === 0);
      await untilMetric(server, "svc_live_runs", (live) => live === 0);
      await assertUnharmed(server);
    });
  }

  test("connections without a request leave nothing open", async () => {
    const before = await metric(server, "svc_open_streams");
    for (let round = 0; round < 10; round++) {
      const all = Array.from({ length: 100 }, () => new RawConnection(server.url));
      await Promise.all(all.map((connection) => connection.send("G")));
      for (const [at, connection] of all.entries()) at % 2 ? connection.reset() : connection.close();
      await Promise.all(all.map((connection) => connection.closed));
    }

    await eventually("streams", async () => (await metric(server, "svc_open_streams")) === before || undefined);
    await assertUnharmed(server);
  });

  // uWebSockets.js leaves incomprehensible bytes until the connection has been idle for ten seconds, so these tests run
  // in parallel.
  describe("connections that end by a timeout", { concurrency: true }, () => {
    test("chunks of invalid sizes are refused, or the connection is closed", async () => {
      const all = await Promise.all(
        chunkSizes.map((size) =>
          tell(rawRequest("POST", "/chat", ["transfer-encoding: chunked"], `${size}\r\n{}\r\n0\r\n\r\n`)),
        ),
      );

      for (const answers of all) assertRefused(answers);
      await assertUnharmed(server);
    });

    test("malformed heads are refused, or the connection is closed", async () => {
      const all = await Promise.all(
        Object.entries(brokenHeads).map(async ([what, bytes]) => ({ what, answers: await tell(bytes) })),
      );

      for (const { what, answers } of all) {
        assert.ok(
          answers.every(({ status }) => (status >= 400 && status < 500) || status === 505),
          `${what}: ${answers.map(({ head }) => head)}`,
        );
      }
      await assertUnharmed(server);
    });

    test("bytes after a body are the next request and never part of the body", async () => {
      const connection = new RawConnection(server.url);
      await connection.send(`${rawRequest("POST", "/chat", ["x-request-id: first"], turn)}GARBAGE\r\n\r\n`);
      const answers = await connection.answers();

      // uWebSockets.js closes a connection that receives more bytes while an answer is due.
      assert.ok(answers.length <= 2);
      if (answers[0]?.status === 200) assert.equal(answers[0].headers["x-request-id"], "first");
      await assertUnharmed(server);
    });

    test("slow senders are dropped at last and delay no other client", async (t) => {
      const slow = Array.from({ length: 300 }, () => new RawConnection(server.url));
      const kinds = [
        // No bytes.
        [],
        // An unfinished head.
        [...`GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: `].join("").split(/(?<=\n)/),
        // An unfinished body, with a length and in chunks.
        [rawRequest("POST", "/chat", ["content-length: 500"], "{")],
        [rawRequest("POST", "/chat", ["transfer-encoding: chunked"], "5\r\n{")],
      ];
      let dripping = true;
      const drip = async (): Promise<void> => {
        while (dripping) {
          for (const [at, connection] of slow.entries()) if (at % kinds.length > 0) void connection.send(" ");
          await new Promise((resolve) => setTimeout(resolve, 500));
        }
      };
      for (const [at, connection] of slow.entries())
        for (const piece of kinds[at % kinds.length] ?? []) await connection.send(piece);
      const dripped = drip();

      let answered = 0;
      while (slow.some((connection) => !connection.over)) {
        const answer = await server.request("POST", "/chat", { body: turn });
        assert.equal(answer.status, 200);
        answered++;
      }
      dripping = false;
      await dripped;

      t.diagnostic(`${answered} turns beside 300 slow senders`);
      assert.ok(answered > 0);
      for (const connection of slow) assert.ok(!/^HTTP\/1\.1 [25]/.test(connection.unread), connection.unread);
      await assertUnharmed(server);
    });
  });
});
