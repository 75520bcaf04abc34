// The content and the end of an answer: each for all ways to split it into pieces.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { egressFailure } from "../../../governance/egress/failure.ts";
import type { ResponseHead } from "../../../governance/egress/response-head.ts";
import { ResponseReader } from "../../../governance/egress/response-reader.ts";

interface Read {
  readonly status: number | null;
  readonly body: string;
  /** The bytes of the answer; null before its end. */
  readonly taken: number | null;
  readonly keeps: boolean;
}

/** Reads pieces up to the end of the answer; `ends`: the connection ends after them. */
function read(pieces: readonly string[], ends = false): Read {
  const reader = new ResponseReader();
  let head: ResponseHead | null = null;
  let body = "";
  let taken = 0;
  reader.begin({
    head(told) {
      head = told;
    },
    data(bytes) {
      body += bytes.toString("latin1");
    },
  });
  for (const piece of pieces) {
    const bytes = Buffer.from(piece, "latin1");
    const used = reader.push(bytes);
    // The buffer of a connection is reused in this way.
    bytes.fill(0x58);
    taken += used;
    if (reader.isOver) break;
  }
  const isOver = reader.isOver || (ends && reader.end());
  const status = (head as ResponseHead | null)?.status ?? null;
  return { status, body, taken: isOver ? taken : null, keeps: reader.keepsConnection };
}

/** The same answer whole, byte by byte, and cut in two at each index. */
function inAllPieces(text: string, ends = false): Read {
  const whole = read([text], ends);
  assert.deepEqual(read([...text], ends), whole, "byte by byte");
  for (let at = 1; at < text.length; at++)
    assert.deepEqual(read([text.slice(0, at), text.slice(at)], ends), whole, `cut at ${at}`);
  return whole;
}

const ok = "HTTP/1.1 200 OK\r\n";

describe("an answer of HTTP", () => {
  for (const [name, text, expected] of [
    ["of a length", `${ok}Content-Length: 5\r\n\r\nhello`, { body: "hello", keeps: true }],
    ["of no length", `${ok}content-length: 0\r\n\r\n`, { body: "", keeps: true }],
    ["without a reason", "HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok", { body: "ok", keeps: true }],
    [
      "in chunks",
      `${ok}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n`,
      { body: "abc0123456789" },
    ],
    [
      "in chunks with more said",
      `${ok}transfer-encoding: Chunked\r\n\r\n3 ;a="\t"\r\nabc\r\n00000\r\nx: y\r\nz: \r\n\r\n`,
      { body: "abc" },
    ],
    ["in a coding and chunks", `${ok}transfer-encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n`, { body: "x" }],
    [
      "behind others that come before it",
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: </a>\r\n\r\n${ok}content-length: 1\r\n\r\nx`,
      { body: "x" },
    ],
    ["that has no content", "HTTP/1.1 204 No Content\r\ncontent-length: 7\r\n\r\n", { status: 204, body: "" }],
    [
      "that was not modified",
      "HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n",
      { status: 304, body: "" },
    ],
    ["that closes", `${ok}connection: Close\r\ncontent-length: 1\r\n\r\nx`, { body: "x", keeps: false }],
    ["of the first version", "HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", { body: "x", keeps: false }],
    [
      "of the first version that is kept",
      "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\ncontent-length: 1\r\n\r\nx",
      { body: "x", keeps: true },
    ],
    [
      "with odd names and values",
      `${ok}!#$%&'*+.^_\`|~0aZ-: \t\xff\tx \t\r\nempty:\r\ncontent-length:\t1 \r\n\r\nx`,
      { body: "x" },
    ],
  ] as const) {
    test(`${name} is read to its end and no further`, () => {
      const answer = inAllPieces(text);
      const followed = read([`${text}HTTP/1.1 500`]);

      const { status = 200, keeps = true, body } = { ...{ status: undefined, keeps: undefined }, ...expected };
      assert.deepEqual(answer, { status, body, taken: text.length, keeps });
      assert.deepEqual(followed, answer);
    });
  }

  test("without a length lasts until the connection ends, which is not reused", () => {
    for (const line of ["", "transfer-encoding: gzip\r\n"]) {
      const text = `${ok}${line}\r\nall of it\r\n\r\n`;

      assert.equal(inAllPieces(text).taken, null);
      assert.deepEqual(inAllPieces(text, true), {
        status: 200,
        body: "all of it\r\n\r\n",
        taken: text.length,
        keeps: false,
      });
    }
  });

  for (const [name, text] of [
    ["before anything", ""],
    ["in its head", `${ok}content-le`],
    ["behind one that comes before it", "HTTP/1.1 100 Continue\r\n\r\n"],
    ["in its body", `${ok}content-length: 3\r\n\r\nab`],
    ["in the size of a chunk", `${ok}transfer-encoding: chunked\r\n\r\n1`],
    ["in a chunk", `${ok}transfer-encoding: chunked\r\n\r\n2\r\na`],
    ["behind a chunk", `${ok}transfer-encoding: chunked\r\n\r\n1\r\na\r`],
    ["before the end of its chunks", `${ok}transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n`],
  ] as const)
    test(`that ends ${name} is not over`, () => {
      assert.equal(inAllPieces(text, true).taken, null);
    });

  for (const [name, text] of [
    ["another protocol", "RTSP/1.0 200 OK\r\n\r\n"],
    ["another version", "HTTP/2.0 200 OK\r\n\r\n"],
    ["a request", "GET / HTTP/1.1\r\n\r\n"],
    ["no status", "HTTP/1.1 OK\r\n\r\n"],
    ["a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"],
    ["a status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"],
    ["a status beyond 599", "HTTP/1.1 600 No\r\n\r\n"],
    ["an upgrade", "HTTP/1.1 101 Switching Protocols\r\n\r\n"],
    ["a folded line", `${ok}a: b\r\n c\r\n\r\n`],
    ["a blank behind a name", `${ok}content-length : 1\r\n\r\n`],
    ["a line without a colon", `${ok}content-length\r\n\r\n`],
    ["a line without a name", `${ok}: 1\r\n\r\n`],
    ["a line feed alone", "HTTP/1.1 200 OK\ncontent-length: 1\r\n\r\n"],
    ["a carriage return in a value", `${ok}a: b\rc: d\r\n\r\n`],
    ["a NUL in a value", `${ok}a: \0\r\n\r\n`],
    ["two lengths", `${ok}content-length: 1\r\ncontent-length: 1\r\n\r\nx`],
    ["lengths in a list", `${ok}content-length: 1, 1\r\n\r\nx`],
    ["a length with a sign", `${ok}content-length: +1\r\n\r\nx`],
    ["a length in hexadecimal", `${ok}content-length: 0x1\r\n\r\nx`],
    ["no length where one is told", `${ok}content-length: \r\n\r\nx`],
    ["a length beyond all numbers", `${ok}content-length: 9999999999999999\r\n\r\nx`],
    ["a length and chunks", `${ok}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\nx`],
    ["chunks in the first version", "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"],
    ["a chunk without a size", `${ok}transfer-encoding: chunked\r\n\r\n\r\nabc`],
    ["a chunk with a sign", `${ok}transfer-encoding: chunked\r\n\r\n-1\r\na\r\n`],
    ["a chunk of 0x1", `${ok}transfer-encoding: chunked\r\n\r\n0x1\r\na\r\n`],
    ["a chunk of more than all bytes", `${ok}transfer-encoding: chunked\r\n\r\n100000000000\r\na\r\n`],
    ["a size with something behind it", `${ok}transfer-encoding: chunked\r\n\r\n1 2\r\na\r\n`],
    ["a chunk longer than its size", `${ok}transfer-encoding: chunked\r\n\r\n1\r\nabc\r\n`],
    ["a chunk that ends in a line feed alone", `${ok}transfer-encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n`],
  ] as const)
    test(`${name} is invalid, with its own failure`, () => {
      for (const pieces of [[text], [...text]])
        assert.throws(
          () => read(pieces),
          (error) =>
            egressFailure(error) === "malformed" && /^the answer is not HTTP: /.test(String((error as Error).message)),
        );
    });

  for (const [name, begin, filler] of [
    ["head", ok, "x: y\r\n"],
    ["status line", "HTTP/1.1 200 ", "x"],
    ["line of a chunk", `${ok}transfer-encoding: chunked\r\n\r\n1;`, "x"],
    ["end of its chunks", `${ok}transfer-encoding: chunked\r\n\r\n0\r\n`, "x: y\r\n"],
  ] as const)
    test(`a ${name} that does not end is given up, however it comes`, () => {
      const much = filler.repeat(Math.ceil(40_000 / filler.length));
      const pieces = (begin + much).match(/[\s\S]{1,100}/g) ?? [];

      for (const come of [[begin + much], [begin, much], pieces])
        assert.throws(
          () => read(come),
          (error) => egressFailure(error) === "malformed",
        );
    });

  test("pipelined answers are read as written, in any pieces", () => {
    const bodies = fc.array(fc.string({ unit: "binary-ascii", maxLength: 40 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(bodies, fc.array(fc.nat(60), { maxLength: 40 }), fc.boolean(), (given, cuts, isChunked) => {
        const texts = given.map((body, at) => answerOf(body, isChunked, at));
        let left = texts.join("");
        const pieces = [
          ...cuts.map((length) => {
            const piece = left.slice(0, length);
            left = left.slice(length);
            return piece;
          }),
          left,
        ];

        const reader = new ResponseReader();
        const found: string[] = [];
        let body = "";
        const data = (bytes: Buffer) => {
          body += bytes.toString("latin1");
        };
        const begin = () => reader.begin({ head() {}, data });
        begin();
        for (const piece of pieces) {
          let bytes = Buffer.from(piece, "latin1");
          while (bytes.length > 0) {
            bytes = bytes.subarray(reader.push(bytes));
            if (!reader.isOver) continue;
            found.push(body);
            body = "";
            begin();
          }
        }

        assert.deepEqual(found, given);
      }),
    );
  });
});

function answerOf(body: string, isChunked: boolean, at: number): string {
  if (!isChunked) return `${ok}content-length: ${body.length}\r\n\r\n${body}`;
  const chunks = body.match(new RegExp(`[\\s\\S]{1,${at + 1}}`, "g")) ?? [];
  const written = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join("");
  return `${ok}transfer-encoding: chunked\r\n\r\n${written}0\r\n\r\n`;
}
