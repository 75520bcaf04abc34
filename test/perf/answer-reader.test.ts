import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { AnswerReader, dialects } from "../../perf/answer-reader.ts";

const expected = "tok00 tok01 tok02 ";
const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const progress =
  'data: {"event":"session_progress","type":"session_progress","data":{"progress":{"delta":"tok00 "}},"text":""}\n\n';
const end =
  'id: 4\ndata: {"event":"done","type":"done","data":{"final":{"content":"tok00 tok01 tok02 "}},"text":""}\n\ndata: [DONE]\n\n';

function delta(text: string): string {
  return `data: {"event":"text_delta","type":"text_delta","data":{"chunk":{"content":"${text}"},"delta":"${text}"},"text":"${text}"}\n\n`;
}

function chunked(pieces: readonly string[]): string {
  return `${head}${pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join("")}0\r\n\r\n`;
}

function read(bytes: string, dialect: keyof typeof dialects = "frames"): AnswerReader {
  const reader = new AnswerReader(dialects[dialect], expected);
  reader.feed(bytes);
  return reader;
}

const good = progress + delta("tok00 ") + progress + delta("tok01 tok02 ") + end;

test("a correct answer is complete, however it was cut into chunks and reads", () => {
  const cuts = fc.array(fc.nat({ max: good.length }));
  fc.assert(
    fc.property(cuts, fc.array(fc.nat({ max: 4 * good.length })), (chunkCuts, readCuts) => {
      const bytes = chunked(cutAt(good, chunkCuts));
      const reader = new AnswerReader(dialects.frames, expected);
      for (const part of cutAt(bytes, readCuts)) reader.feed(part);

      assert.equal(reader.problem, undefined);
      assert.equal(reader.over, true);
      assert.equal(reader.matched, expected.length);
      assert.equal(reader.frames, 6);
    }),
  );
});

test("the same reader takes the next answer after a reset", () => {
  const reader = read(chunked([delta("nonsense")]));
  reader.reset();
  reader.feed(chunked([good]));

  assert.equal(reader.problem, undefined);
});

test("an answer of the OpenAI protocol is read too", () => {
  const chunk = (content: string) => `data: {"id":"c","choices":[{"index":0,"delta":{"content":"${content}"}}]}\n\n`;
  const finish = 'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';

  const reader = read(
    chunked([chunk("") + chunk("tok00 tok01 ") + chunk("tok02 ") + finish, "data: [DONE]\n\n"]),
    "openai",
  );

  assert.equal(reader.problem, undefined);
});

test("frames with keys in another order count as text", () => {
  const other = `data: ${JSON.stringify({ type: "text_delta", event: "text_delta", data: { delta: expected }, text: expected })}\n\n`;

  const reader = read(chunked([other + end]));

  assert.equal(reader.problem, undefined);
});

for (const [problem, bytes] of [
  ["status 503", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"],
  ["text incomplete", chunked([delta("tok00 ") + end])],
  ["wrong text", chunked([delta("tok00 ") + delta("tok02 ") + end])],
  ["wrong text", chunked([delta(expected) + delta("tok00 ") + end])],
  ["no [DONE]", chunked([delta(expected)])],
  ["cut off", chunked([good]).slice(0, -3)],
  ["cut off", ""],
  [
    "error frame",
    chunked(['event: error\ndata: {"error":{"message":"x","type":"stream_error"}}\n\n', "data: [DONE]\n\n"]),
  ],
  ["error frame", chunked([`data: {"event":"on_error","type":"on_error","data":{"message":"x"},"text":""}\n\n${end}`])],
] as const) {
  test(`an answer with ${problem} is not correct: ${JSON.stringify(bytes.slice(-30))}`, () => {
    const reader = read(bytes);

    assert.equal(reader.problem, problem);
  });
}

test("a server that closes the connection is detected", () => {
  const closing = read("HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  const staying = read(chunked([good]));

  assert.deepEqual([closing.closing, closing.over, staying.closing], [true, true, false]);
});

function cutAt(text: string, places: readonly number[]): string[] {
  const edges = [0, ...places.filter((place) => place < text.length).toSorted((a, b) => a - b), text.length];
  return edges
    .slice(1)
    .map((edge, at) => text.slice(edges[at], edge))
    .filter((part) => part !== "");
}
