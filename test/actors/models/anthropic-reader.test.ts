// Streams of the Messages API, byte by byte, with any cuts of the network.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { AnthropicReader } from "../../../actors/models/anthropic-reader.ts";
import { ChunkError } from "../../../actors/models/chunk.ts";
import { runs } from "../../support/effort.ts";
import { listen } from "./support.ts";

const by = "anthropic/claude";

/** Reads a stream in pieces of so many bytes. */
function read(stream: string, bytes = Number.POSITIVE_INFINITY) {
  const listener = listen();
  const reader = new AnthropicReader(listener.events, by);
  const all = Buffer.from(stream);
  for (let at = 0; at < all.length; at += bytes) reader.push(all.subarray(at, at + bytes));
  return { reply: reader.end(), ...listener };
}

function errorOf(stream: string): { error: ChunkError; text: string } {
  const listener = listen();
  const reader = new AnthropicReader(listener.events, by);
  try {
    reader.push(Buffer.from(stream));
    reader.end();
  } catch (error) {
    assert.ok(error instanceof ChunkError, String(error));
    return { error, text: listener.text };
  }
  assert.fail("the stream was read");
}

const start = `event: message_start
data: {"type":"message_start","message":{"model":"claude-sonnet-5","id":"msg_01","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":4,"cache_read_input_tokens":1800,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":0},"output_tokens":2,"service_tier":"standard"}}    }

`;
const textBlock = `event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}        }

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}           }

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" there"} }

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":",\\n\\"friend\\""}   }

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" of mine"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0  }

`;
const stop = (reason: string) => `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"${reason}","stop_sequence":null},"usage":{"output_tokens":12}           }

event: message_stop
data: {"type":"message_stop"               }

`;

describe("recorded streams", () => {
  test("text, with blanks in every event", () => {
    for (const bytes of [1, 7, 64, 1000, 100_000]) {
      const { reply, text } = read(start + textBlock + stop("end_turn"), bytes);

      assert.equal(text, 'Hello there,\n"friend" of mine');
      assert.deepEqual(reply, {
        text,
        reasoning: "",
        tool_calls: [],
        stop_reason: "end_turn",
        usage: { input: 25, output: 12, cacheRead: 1800, cacheWrite: 4 },
      });
    }
  });

  test("redacted thinking next to hidden thinking", () => {
    const { reply, said } = read(
      `${start}event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4="}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

${textBlock.replaceAll('"index":0', '"index":2')}${stop("end_turn")}`,
    );

    assert.deepEqual(
      said.map(({ kind }) => kind),
      ["text"],
    );
    assert.deepEqual([reply.reasoning, reply.text], ["", 'Hello there,\n"friend" of mine']);
    assert.deepEqual(reply.thoughts, [
      { type: "redacted_thinking", data: "EmwKAhgBEgy3va3pzix/LafPsn4=", by },
      { type: "thinking", thinking: "", signature: "EqQBCgIYAhIM1gbcDa9GJwZA2b3h", by },
    ]);
  });

  test("overload after the 200, before any text", () => {
    const { error, text } = errorOf(`${start}event: error
data: {"type":"error","error":{"details":null,"type":"overloaded_error","message":"Overloaded"}}

`);

    assert.deepEqual([error.status, error.message, text], [529, "Overloaded", ""]);
  });

  test("an error event after text", () => {
    const { error, text } = errorOf(`${start}${textBlock}event: error
data: {"type":"error","error":{"type":"api_error","message":"Internal server error"},"request_id":"req_1"}

`);

    assert.deepEqual([error.status, error.message], [500, "Internal server error"]);
    assert.equal(text, 'Hello there,\n"friend" of mine');
  });

  for (const reason of ["pause_turn", "refusal"] as const) {
    test(reason, () => assert.equal(read(start + textBlock + stop(reason)).reply.stop_reason, reason));
  }

  test("events after the end of the answer are ignored", () => {
    const { reply } = read(`${start}${textBlock}${stop("end_turn")}${textBlock}data: {no JSON\n\n`);

    assert.equal(reply.text, 'Hello there,\n"friend" of mine');
  });

  test("an answer without a block and a stop reason is invalid", () => {
    assert.match(errorOf(`${start}event: message_stop\ndata: {"type":"message_stop"}\n\n`).error.message, /is empty/);
    assert.equal(read(`${start}${stop("end_turn")}`).reply.text, "");
  });

  test("a stream without its end is cut off", () => {
    for (const cut of [start, start + textBlock]) assert.match(errorOf(cut).error.message, /ended before the answer/);
  });
});

test("events that differ only in their text are not parsed, whatever their padding", (t) => {
  const block = (type: string, index: number) =>
    `event: content_block_start\ndata: {"type":"content_block_start","index":${index},"content_block":{"type":"${type}"}}\n\n`;
  const delta = (type: string, index: number, at: number) =>
    `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":{"type":"${type}_delta","${type}":"word${at} "}${" ".repeat(at % 9)}}\n\n`;
  const many = (type: string, index: number) =>
    Array.from({ length: 1000 }, (_, at) => delta(type, index, at)).join("");
  const stream = `${start}${block("thinking", 0)}${many("thinking", 0)}${block("text", 1)}${many("text", 1)}${stop("end_turn")}`;
  const { mock } = t.mock.method(JSON, "parse");

  const { reply } = read(stream, 4096);
  const parsed = mock.callCount();

  assert.deepEqual([reply.text.split(" ").length, reply.reasoning.split(" ").length], [1001, 1001]);
  assert.ok(parsed < 120, `${parsed} of 2006 events were parsed`);
});

describe("hostile streams", () => {
  const delta = (fields: string) => `data: {"type":"content_block_delta","index":0,"delta":{${fields}}}\n\n`;

  test("text that looks like the syntax around it is text", () => {
    const pieces = ["plain", "more", '"}}\n\nevent: x', "data: {", '","text":"', "\\u0041", "  }", "}}", "last"];
    const events = pieces.map((text) => delta(`"type":"text_delta","text":${JSON.stringify(text)}`)).join("");
    const { reply } = read(
      `${start}data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n${events}${stop("end_turn")}`,
    );

    assert.equal(reply.text, pieces.join(""));
  });

  test("an event with more fields than the learned one is parsed", () => {
    const { reply } = read(
      `${start}${delta('"type":"text_delta","text":"a"')}${delta('"type":"text_delta","text":"b"')}` +
        `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"c"},"error":{"type":"x"}}\n\n` +
        `${delta('"type":"text_delta","text":"d","more":[{"text":"e"}]')}` +
        `${delta('"type":"text_delta","text":"not","text":"f"')}${stop("end_turn")}`,
    );

    assert.equal(reply.text, "abcdf");
  });

  test("unknown events, blocks without a start and values of wrong types are skipped", () => {
    const odd = [
      '{"type":"later_kind","x":1}',
      '{"type":"content_block_delta","index":9,"delta":{"type":"input_json_delta","partial_json":"{"}}',
      '{"type":"content_block_delta","index":0,"delta":null}',
      '{"type":"content_block_delta","delta":{"text":7}}',
      '{"type":"content_block_start","index":"a","content_block":null}',
      '{"type":"content_block_stop","index":{}}',
      '{"type":"message_start","message":null}',
      '{"type":"message_delta","delta":{"stop_reason":5},"usage":{"output_tokens":-1,"input_tokens":"many"}}',
      "[]",
    ];
    const { reply } = read(`${start}${odd.map((data) => `data: ${data}\n\n`).join("")}${textBlock}${stop("end_turn")}`);

    assert.equal(reply.text, 'Hello there,\n"friend" of mine');
    assert.deepEqual(reply.usage, { input: 25, output: 12, cacheRead: 1800, cacheWrite: 4 });
  });

  test("usage in message_start says nothing of output, and missing usage is unknown", () => {
    const delta = (usage: string) => `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}${usage}}\n\n`;
    const unsaid = ["", ',"usage":null', ',"usage":{}', ',"usage":"12"', ',"usage":{"output_tokens":"12"}'];
    const withoutInput = 'data: {"type":"message_start","message":{"usage":{"output_tokens":1}}}\n\n';

    for (const usage of unsaid) assert.equal(read(start + textBlock + delta(usage)).reply.usage, null, usage);
    assert.equal(read(withoutInput + textBlock + delta(',"usage":{"output_tokens":12}')).reply.usage, null);
    assert.equal(read(withoutInput + delta(',"usage":{"input_tokens":0,"output_tokens":0}')).reply.usage, null);
    assert.deepEqual(read(withoutInput + delta(',"usage":{"input_tokens":9,"output_tokens":12}')).reply.usage, {
      input: 9,
      output: 12,
      cacheRead: 0,
      cacheWrite: 0,
    });
  });

  test("zeros after reported usage are ignored", () => {
    const zeros = '{"input_tokens":0,"output_tokens":0,"cache_read_input_tokens":0}';
    const delta = (usage: string) =>
      `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":${usage}}\n\n`;

    const { reply } = read(start + textBlock + delta('{"output_tokens":12}') + delta(zeros));

    assert.deepEqual(reply.usage, { input: 25, output: 12, cacheRead: 1800, cacheWrite: 4 });
  });

  test("the usage of an answer in several bodies is unknown when one body lacks it", () => {
    const silent = start + stop("pause_turn").replace(',"usage":{"output_tokens":12}', "");
    const usageOf = (...bodies: string[]) => {
      const reader = new AnthropicReader(listen().events, by);
      return bodies.map((body, at) => {
        if (at > 0) reader.continueReply();
        reader.push(Buffer.from(body));
        return reader.end().usage;
      });
    };
    const counted = { input: 25, output: 12, cacheRead: 1800, cacheWrite: 4 };

    assert.deepEqual(usageOf(silent, start + stop("end_turn")), [null, null]);
    assert.deepEqual(usageOf(start + stop("pause_turn"), silent), [counted, null]);
  });

  test("endless signatures, arguments and blocks are refused", () => {
    const long = "x".repeat(1024 * 1024);
    const begun = (type: string) =>
      `data: {"type":"content_block_start","index":0,"content_block":{"type":"${type}"}}\n\n`;

    for (const [type, key] of [
      ["thinking", "signature"],
      ["tool_use", "partial_json"],
    ] as const) {
      const stream = start + begun(type) + delta(`"type":"x","${key}":"${long}"`).repeat(17);
      assert.match(errorOf(stream).error.message, /too long/);
    }
    assert.match(errorOf(start + begun("text").repeat(5000)).error.message, /too many parts/);
  });
});

describe("any stream", () => {
  const words = fc.oneof(
    fc.string({ minLength: 1, maxLength: 8 }),
    fc.string({ unit: "binary", minLength: 1, maxLength: 6 }),
    fc.constantFrom(
      '"}}\n\n',
      '","text":"',
      "\\",
      "\u2028",
      "\u0000",
      "\ud83d",
      "\udd8a",
      "Grüße 🦊",
      " } } ",
      "event: error",
    ),
  );
  const block = fc.oneof(
    fc.record({ type: fc.constant("text" as const), pieces: fc.array(words, { maxLength: 12 }) }),
    fc.record({ type: fc.constant("thinking" as const), pieces: fc.array(words, { maxLength: 12 }) }),
    fc.record({ type: fc.constant("tool_use" as const), pieces: fc.array(words, { maxLength: 4 }) }),
  );
  const style = fc.record({
    lineEnd: fc.constantFrom("\n", "\r\n", "\r"),
    names: fc.boolean(),
    pads: fc.array(fc.nat(12), { minLength: 1, maxLength: 5 }),
    bytes: fc.integer({ min: 1, max: 400 }),
  });
  type Block = typeof block extends fc.Arbitrary<infer T> ? T : never;

  const keys = { text: "text", thinking: "thinking", tool_use: "partial_json" } as const;
  const eventsOf = ({ type, pieces }: Block, index: number): object[] => [
    { type: "content_block_start", index, content_block: { type, id: `id${index}`, name: "f" } },
    ...pieces.map((piece) => ({
      type: "content_block_delta",
      index,
      delta: { type: `${type}_delta`, [keys[type]]: piece },
    })),
    { type: "content_block_stop", index },
  ];
  const sound = (text: string): string => text.toWellFormed().replaceAll("\0", "\ufffd");

  test("means the same in every notation and with every cut", () => {
    fc.assert(
      fc.property(fc.array(block, { maxLength: 6 }), style, (blocks, { lineEnd, names, pads, bytes }) => {
        const events = [
          ...blocks.flatMap(eventsOf),
          { type: "message_delta", delta: { stop_reason: "end_turn" } },
          { type: "message_stop" },
        ];
        const text = events
          .map((event, at) => {
            const pad = " ".repeat(pads[at % pads.length] ?? 0);
            const json = JSON.stringify(event).replace(/\}\}$/, `}${pad}}`);
            return `${names ? `event: ${(event as { type: string }).type}${lineEnd}` : ""}data: ${json}${lineEnd}${lineEnd}`;
          })
          .join("");

        const { reply, said } = read(text, bytes);

        const of = (type: Block["type"]) =>
          blocks
            .filter((each) => each.type === type)
            .flatMap(({ pieces }) => pieces)
            .join("");
        assert.equal(reply.text, sound(of("text")));
        assert.equal(reply.reasoning, sound(of("thinking")));
        const heard = (kind: string) =>
          said
            .filter((each) => each.kind === kind)
            .map(({ words: heardWords }) => heardWords)
            .join("");
        assert.deepEqual([heard("text"), heard("reasoning")], [reply.text, reply.reasoning]);
        const thoughts = blocks.filter(({ type }) => type === "thinking").map(({ pieces }) => pieces.join(""));
        const kept = (reply.thoughts ?? []).map((thought) => (thought.type === "thinking" ? thought.thinking : ""));
        assert.equal(kept.join(""), sound(thoughts.join("")));
        assert.deepEqual(
          kept.map(({ length }) => length),
          thoughts.map(({ length }) => length),
        );
        const asked = blocks.filter(({ type }) => type === "tool_use").map(({ pieces }) => pieces.join("") || "{}");
        assert.deepEqual(
          reply.tool_calls.map((call) => call.arguments),
          asked,
        );
      }),
      { numRuns: runs(600) },
    );
  });
});
