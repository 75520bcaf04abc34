// Node's server with requests that uWebSockets.js treats in its own way or does not answer (docs/operations.md).
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { assertUnharmed, untilMetric } from "../../security/support.ts";
import { startChatProcess, turn as turnOf } from "../../support/chat.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { oneChunk, type RawAnswer, RawConnection, rawRequest } from "../../support/raw-http.ts";
import type { ProcessServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";
import { assertCommonHeaders } from "../support.ts";

const turn = (fields: object = {}, text = "hi") => JSON.stringify(turnOf("talk", text, fields));
const get = "GET /health HTTP/1.1\r\nhost: localhost\r\n";

/** Bytes that are not a request for a strict parser. */
const refused: Readonly<Record<string, readonly [bytes: string, status: number, code: string]>> = {
  "a header with an empty name": [`${get}: x\r\ncontent-length: 5\r\n\r\n`, 400, "malformed_request"],
  "a header that goes on in the next line": [`${get}x-a: b\r\n c\r\n\r\n`, 400, "malformed_request"],
  "a control character in a value": [`${get}x-a: b\x01c\r\n\r\n`, 400, "malformed_request"],
  "a DEL in a value": [`${get}x-a: b\x7fc\r\n\r\n`, 400, "malformed_request"],
  "a blank before the colon": [`${get}x-a : b\r\n\r\n`, 400, "malformed_request"],
  "lines that end in LF": ["GET /health HTTP/1.1\nhost: localhost\n\n", 400, "malformed_request"],
  "bytes beyond ASCII in the path": ["GET /h\xc3\xa9 HTTP/1.1\r\nhost: localhost\r\n\r\n", 400, "malformed_request"],
  "a length and chunks": [
    `POST /chat HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n${oneChunk("{}")}`,
    400,
    "malformed_request",
  ],
  "a chunk without a size": [
    `POST /chat HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n`,
    400,
    "malformed_request",
  ],
  "extensions of chunks without an end": [
    `POST /chat HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n2;${"a".repeat(20_000)}\r\n{}\r\n0\r\n\r\n`,
    413,
    "payload_too_large",
  ],
  "a whole URL of another host": [
    "GET http://evil.example.com/chat/sessions HTTP/1.1\r\nhost: evil.example.com\r\n\r\n",
    403,
    "host_not_allowed",
  ],
  "a whole URL and another host": [
    "GET http://localhost/health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    400,
    "invalid_header",
  ],
  "a tunnel": ["CONNECT evil.example.com:443 HTTP/1.1\r\nhost: localhost\r\n\r\n", 400, "malformed_request"],
  "HTTP/0.9": ["GET /health\r\n\r\n", 403, "host_not_allowed"],
  "HTTP/2.0": ["GET /health HTTP/2.0\r\nhost: localhost\r\n\r\n", 400, "malformed_request"],
  "the preface of HTTP/2": ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "malformed_request"],
  "101 headers": [`${get}${"x-a: b\r\n".repeat(100)}\r\n`, 431, "headers_too_large"],
  "17 KB of headers": [`${get}x-a: ${"b".repeat(17_000)}\r\n\r\n`, 431, "headers_too_large"],
};

/** Valid requests that uWebSockets.js answers differently or not at all. */
const served: Readonly<Record<string, string>> = {
  "HTTP/1.0": "GET /health HTTP/1.0\r\nhost: localhost\r\n\r\n",
  "an empty line before the request": `\r\n${get}\r\n`,
  "a whole URL": "GET http://localhost/health HTTP/1.1\r\nhost: localhost\r\n\r\n",
  "a whole URL without a path": "GET http://localhost?x=1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
  trailers: rawRequest(
    "POST",
    "/chat",
    ["transfer-encoding: chunked"],
    oneChunk(turn()).replace(/\r\n$/, "x-t: 1\r\n\r\n"),
  ),
  "extensions of chunks": rawRequest(
    "POST",
    "/chat",
    ["transfer-encoding: chunked"],
    oneChunk(turn()).replace("\r\n", ";a=b\r\n"),
  ),
};

describe("Node's server", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["mock-text", "mock-hang-between"],
      manifests: { talk: { model: { id: "mock-text" } }, hang: { model: { id: "mock-hang-between" } } },
      env: { SVC_HTTP_ENGINE: "node" },
    }));
  });

  /** A connection on which these bytes were sent. */
  async function told(bytes: string): Promise<RawConnection> {
    const connection = new RawConnection(server.url);
    await connection.send(Buffer.from(bytes, "latin1"));
    return connection;
  }

  for (const [what, [bytes, status, code]] of Object.entries(refused)) {
    test(`refuses ${what} once, in the usual form`, async () => {
      const alone = await told(bytes);
      const followed = await told(`${bytes}${rawRequest("GET", "/live")}`);
      const answer = (await alone.answer()) as RawAnswer;
      alone.close();
      followed.finish();
      const [first, ...behind] = await followed.answers();

      for (const each of [answer, first as RawAnswer]) {
        assert.deepEqual([each.status, JSON.parse(each.body).error], [status, code]);
        assertCommonHeaders(each);
      }
      // A fully read request may be followed by another, which gets its own answer.
      for (const { head } of behind) assert.ok(status !== 400 || code !== "malformed_request", head);
      await assertUnharmed(server);
    });
  }

  for (const [what, bytes] of Object.entries(served)) {
    test(`serves ${what}`, async () => {
      const connection = await told(bytes);
      const answer = (await connection.answer()) as RawAnswer;
      connection.close();

      assert.equal(answer.status, 200, answer.body);
      assertCommonHeaders(answer);
    });
  }

  test("an answer of HTTP/1.0 ends with the connection, also one in pieces", async () => {
    const whole = await told("GET /health HTTP/1.0\r\nhost: localhost\r\nconnection: keep-alive\r\n\r\n");
    const body = turn();
    const streamed = await told(
      `POST /chat/stream HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );

    const [answer] = await whole.answers();
    const [stream] = await streamed.answers();

    assert.equal(answer?.headers.connection, "close");
    assert.equal(stream?.headers["transfer-encoding"], undefined);
    assert.match(stream?.body ?? "", /^data: .*\n\n.*data: \[DONE\]\n\n$/s);
  });

  test("a connection announces its close if it closes, and nothing otherwise", async () => {
    const connection = await told(rawRequest("GET", "/health"));
    const stays = await connection.answer();
    await connection.send(rawRequest("GET", "/health", ["connection: close"]));
    const [closes] = await connection.answers();

    assert.deepEqual([stays?.headers.connection, stays?.headers["keep-alive"]], [undefined, undefined]);
    assert.equal(closes?.headers.connection, "close");
  });

  test("pipelined requests run one after the other, and are answered in order", async () => {
    const connection = await told(
      [
        rawRequest("POST", "/chat", ["x-request-id: r0"], turn({ thread_id: "piped" })),
        rawRequest("GET", "/chat/history/piped", ["x-request-id: r1"]),
        rawRequest("POST", "/chat/stream", ["x-request-id: r2"], turn({ thread_id: "piped" })),
        rawRequest("GET", "/chat/sessions/piped", ["x-request-id: r3"]),
        rawRequest("GET", "/health", ["x-request-id: r4", "connection: close"]),
      ].join(""),
    );

    const answers = await connection.answers();

    assert.deepEqual(
      answers.map(({ status, headers }) => [status, headers["x-request-id"]]),
      ["r0", "r1", "r2", "r3", "r4"].map((id) => [200, id]),
    );
    const [, history, stream, session] = answers.map(({ body }) => body);
    assert.equal(JSON.parse(history ?? "").messages.length, 2);
    assert.match(stream ?? "", /data: \[DONE\]\n\n$/);
    assert.equal(JSON.parse(session ?? "").transcript.length, 4);
  });

  test("malformed bytes after a request are refused once the request is answered", async () => {
    const connection = await told(`${rawRequest("POST", "/chat", ["x-request-id: first"], turn())}GARBAGE\r\n\r\n`);
    const [first, second, ...more] = await connection.answers();

    assert.deepEqual([first?.status, first?.headers["x-request-id"]], [200, "first"]);
    assert.deepEqual([second?.status, JSON.parse(second?.body ?? "").error], [400, "malformed_request"]);
    assert.deepEqual(more, []);
  });

  test("65 of many pipelined requests run, and then the connection ends", async () => {
    const before = mock.requests.length;
    const connection = await told(rawRequest("POST", "/chat", [], turn()).repeat(300));
    const answers = await connection.answers();

    assert.deepEqual([answers.length, answers.at(-1)?.status], [66, 400]);
    assert.equal(mock.requests.length - before, 65);
    await assertUnharmed(server);
  });

  test("a client that expects 100-continue gets it only if its body is wanted", async () => {
    const waits = (path: string, length: number) =>
      told(rawRequest("POST", path, [`content-length: ${length}`, "expect: 100-continue"], ""));
    const [tooLong, nowhere, wanted] = await Promise.all([
      waits("/chat", 2_000_000),
      waits("/no/such/path", 2),
      waits("/chat", turn().length),
    ]);

    const statuses = [await tooLong?.answer(), await nowhere?.answer(), await wanted?.answer()].map(
      (answer) => answer?.status,
    );
    await wanted?.send(turn());
    const answer = await wanted?.answer();
    for (const connection of [tooLong, nowhere, wanted]) connection?.close();

    assert.deepEqual([...statuses, answer?.status], [413, 404, 100, 200]);
  });

  test("no continue for old, unknown or bodiless expectations; an unread body closes", async () => {
    const asks = (request: string) => told(request.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n"));
    const [old, spelled, unknown, withoutBody, empty] = await Promise.all([
      asks(rawRequest("POST", "/chat", [], turn()).replace("HTTP/1.1", "HTTP/1.0")),
      told(rawRequest("POST", "/chat", ["expect: 100-Continue"], turn())),
      told(rawRequest("POST", "/chat", ["expect: wonders"], turn())),
      asks(`${get}\r\n`),
      asks(rawRequest("POST", "/chat", ["content-length: 0"], "")),
    ]);

    assert.equal((await old.answer())?.status, 200);
    assert.deepEqual([(await spelled.answer())?.status, (await spelled.answer())?.status], [100, 200]);
    assert.equal((await unknown.answer())?.status, 200);
    for (const connection of [withoutBody, empty]) {
      const answers = await connection.answers();
      assert.deepEqual(
        answers.map(({ headers }) => headers.connection),
        ["close"],
      );
    }
    for (const connection of [spelled, unknown]) connection.close();
  });

  test("a half-closed client is answered, whole or as a stream", async () => {
    for (const path of ["/chat", "/chat/stream"]) {
      const connection = await told(rawRequest("POST", path, [], turn()));
      connection.finish();
      const answers = await connection.answers();

      assert.deepEqual(
        answers.map(({ status }) => status),
        [200],
      );
      assert.equal(answers[0]?.headers.connection, path === "/chat" ? "close" : answers[0]?.headers.connection);
    }
  });

  test("a client that closed its connection is detected, and its turn ends", async () => {
    for (const path of ["/chat", "/chat/stream"]) {
      const connection = await told(rawRequest("POST", path, [], JSON.stringify(turnOf("hang", "hi"))));
      await untilMetric(server, "svc_live_runs", (live) => live === 1);
      connection.close();

      await untilMetric(server, "svc_live_runs", (live) => live === 0);
      await untilMetric(server, "svc_open_streams", (open) => open === 0);
    }
    await assertUnharmed(server);
  });

  test("a disconnect is noticed although unread bytes follow the request", async () => {
    const turnOfHang = rawRequest("POST", "/chat", [], JSON.stringify(turnOf("hang", "hi")));
    const behind = [
      rawRequest("POST", "/chat", ["content-length: 100"], ""),
      rawRequest("POST", "/chat", [], turn() + " ".repeat(100_000)),
      "no request\r\n\r\n",
    ];
    const connections = await Promise.all(behind.map((bytes) => told(turnOfHang + bytes)));
    await untilMetric(server, "svc_live_runs", (live) => live === behind.length);
    for (const connection of connections) connection.close();

    await untilMetric(server, "svc_live_runs", (live) => live === 0);
    await assertUnharmed(server);
  });

  test("a connection that ends inside a request gets an error", async () => {
    for (const bytes of [
      get,
      rawRequest("POST", "/chat", ["content-length: 9"], "{}"),
      rawRequest("POST", "/chat", ["transfer-encoding: chunked"], "9\r\n{"),
    ]) {
      const connection = await told(bytes);
      connection.finish();
      const answers = await connection.answers();

      assert.deepEqual(
        answers.map(({ status, body }) => [status, JSON.parse(body)]),
        [[400, { error: "malformed_request", detail: "the connection ended inside the request" }]],
      );
      assertCommonHeaders(answers[0] as RawAnswer);
    }
  });

  describe("connections that end by a timeout", { concurrency: true }, () => {
    test("a head that does not end is 408; a connection without a byte is closed", async () => {
      const slow = await told(get);
      const silent = new RawConnection(server.url);

      const [answer] = await slow.answers();
      const none = await silent.answers();

      assert.deepEqual([answer?.status, JSON.parse(answer?.body ?? "").error], [408, "request_timeout"]);
      assertCommonHeaders(answer as RawAnswer);
      assert.deepEqual(none, []);
    });

    test("a connection that is idle after its answer is closed silently", async () => {
      const connection = await told(rawRequest("GET", "/health"));
      const answers = await connection.answers();

      assert.deepEqual(
        answers.map(({ status }) => status),
        [200],
      );
    });
  });
});
