import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ChunkError } from "../../../actors/models/chunk.ts";
import { ChunkReader } from "../../../actors/models/chunk-reader.ts";
import { runs } from "../../support/effort.ts";
import { listen } from "./support.ts";

// A well-formed stream, in any notation and with any cuts, means the same as a plain reading line by line.

/** Text that looks like the syntax around it. */
const lookAlikes = [
  '"content":"',
  '","content":"x',
  '"},"finish_reason":"stop"}]}',
  "data: [DONE]",
  "[DONE]",
  "\n\ndata: {}",
  "\r\n",
  "\\",
  '\\"',
  "\u2028",
  "Grüße 🦊",
  "\u0000",
  "\ud83d",
  "\udd8a",
  " ",
];

const words = fc.oneof(
  { weight: 4, arbitrary: fc.string({ minLength: 1, maxLength: 8 }) },
  { weight: 2, arbitrary: fc.string({ unit: "binary", minLength: 1, maxLength: 6 }) },
  { weight: 2, arbitrary: fc.constantFrom(...lookAlikes) },
);

/** Indexes of the calls, with gaps. */
const indices = [0, 1, 4, 9];

const delta = fc.oneof(
  { weight: 8, arbitrary: words.map((content) => ({ content })) },
  { weight: 1, arbitrary: words.map((content) => ({ role: "assistant", content })) },
  { weight: 1, arbitrary: words.map((reasoning_content) => ({ reasoning_content, content: null })) },
  { weight: 1, arbitrary: words.map((reasoning) => ({ reasoning, content: "" })) },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.constantFrom(...indices), words).map(([index, piece]) => ({
      tool_calls: [{ index, id: `call_${index}`, type: "function", function: { name: "f", arguments: piece } }],
    })),
  },
  { weight: 1, arbitrary: fc.constant({}) },
);

const usage = fc.option(
  fc.record({ prompt: fc.nat(5000), cached: fc.nat(5000), output: fc.nat(5000) }).map(({ prompt, cached, output }) => ({
    prompt_tokens: prompt + cached,
    completion_tokens: output,
    total_tokens: prompt + cached + output,
    prompt_tokens_details: { cached_tokens: cached },
  })),
);

const style = fc.record({
  lineEnd: fc.constantFrom("\n", "\r\n", "\r"),
  space: fc.constantFrom(" ", ""),
  changingIds: fc.boolean(),
  obfuscation: fc.boolean(),
  noise: fc.boolean(),
  mark: fc.boolean(),
  /** In the JSON style of Python, over several data lines, or in that of JavaScript. */
  json: fc.constantFrom("spaced", "lines", "dense"),
  end: fc.constantFrom("done", "done and more", "no done", "no last line break"),
});

const stream = fc.record({
  deltas: fc.array(delta, { maxLength: 24 }),
  finish: fc.constantFrom("stop", "length", "tool_calls"),
  usage,
  style,
});

type Stream = typeof stream extends fc.Arbitrary<infer T> ? T : never;

function written({ deltas, finish, usage, style }: Stream): string {
  const { lineEnd, space } = style;
  const chunk = (at: number, choices: unknown[], more: object): string => {
    const document = {
      id: style.changingIds ? `c${at}` : "c",
      choices,
      ...(style.obfuscation ? { obfuscation: "x".repeat(at % 7) } : {}),
      ...more,
    };
    const text = style.json === "lines" ? JSON.stringify(document, null, 1) : JSON.stringify(document);
    const spaced = style.json === "spaced" ? text.replaceAll('":', '": ') : text;
    const lines = spaced.split("\n").map((line) => `data:${space}${line}${lineEnd}`);
    const noise = style.noise ? `: keep-alive${lineEnd}event: chunk${lineEnd}id: ${at}${lineEnd}` : "";
    return noise + lines.join("") + lineEnd;
  };
  const said = deltas.map((delta, at) =>
    chunk(at, [{ index: 0, delta, logprobs: null, finish_reason: null }], { usage: null }),
  );
  const last = chunk(deltas.length, [{ index: 0, delta: {}, finish_reason: finish }], {});
  const counted = usage === null ? "" : chunk(deltas.length + 1, [], { usage });
  const whole = (style.mark ? "\ufeff" : "") + said.join("") + last + counted;
  if (style.end === "no last line break") return whole.slice(0, whole.length - 2 * lineEnd.length);
  if (style.end === "no done") return whole;
  const done = `${whole}data:${space}[DONE]${lineEnd}${lineEnd}`;
  if (style.end === "done") return done;
  return `${done}${chunk(99, [{ index: 0, delta: { content: "not heard" }, finish_reason: "length" }], {})}data: {no JSON${lineEnd}`;
}

/** The replacements of NUL and of lone surrogates. */
function sound(text: string): string {
  return text.toWellFormed().replaceAll("\0", "\ufffd");
}

/** The naive way: the whole text, line by line, every event parsed. */
function plainReading(text: string) {
  const said: { kind: "text" | "reasoning"; words: string }[] = [];
  const add = (kind: "text" | "reasoning", words: string | null | undefined): void => {
    if (!words) return;
    const last = said.at(-1);
    if (last?.kind === kind) last.words += words;
    else said.push({ kind, words });
  };
  // A thought may separate the halves of a pair.
  const isCut = /\\ud[89a-f]/.test(text);
  const calls = new Map<number, { id: string; name: string; arguments: string }>();
  let finish = "";
  let counted = null;
  let data: string[] = [];
  for (const line of [...text.replace(/^\ufeff/, "").split(/\r\n|\r|\n/), ""]) {
    if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    if (line !== "" || data.length === 0) continue;
    const event = data.join("\n");
    data = [];
    if (event === "[DONE]") break;
    const chunk = JSON.parse(event);
    if (chunk.usage) {
      const { prompt_tokens, completion_tokens, prompt_tokens_details } = chunk.usage;
      const cacheRead = prompt_tokens_details.cached_tokens;
      counted = { input: prompt_tokens - cacheRead, output: completion_tokens, cacheRead, cacheWrite: 0 };
    }
    const choice = chunk.choices[0];
    if (!choice) continue;
    finish = choice.finish_reason ?? finish;
    add("reasoning", choice.delta.reasoning_content ?? choice.delta.reasoning);
    add("text", choice.delta.content);
    for (const { index, id, function: named } of choice.delta.tool_calls ?? []) {
      const call = calls.get(index) ?? { id, name: named.name, arguments: "" };
      calls.set(index, { ...call, arguments: call.arguments + named.arguments });
    }
  }
  const ends: Record<string, string> = {
    stop: calls.size > 0 ? "tool_use" : "end_turn",
    length: "max_tokens",
    tool_calls: calls.size > 0 ? "tool_use" : "end_turn",
  };
  const all = (kind: string): string =>
    sound(said.flatMap((piece) => (piece.kind === kind ? [piece.words] : [])).join(""));
  const reply = {
    text: all("text"),
    reasoning: all("reasoning"),
    tool_calls: [...calls].sort(([a], [b]) => a - b).map(([, call]) => call),
    stop_reason: ends[finish],
    usage: counted,
  };
  return { reply, said: isCut ? null : said.map(({ kind, words }) => ({ kind, words: sound(words) })) };
}

/** A stream may be cut off between the halves of a surrogate pair. The first half is then reported as U+FFFD. */
function endsInHalfAPair(said: string, whole: string): boolean {
  const before = said.slice(0, -1);
  return said.endsWith("\ufffd") && whole.startsWith(before) && (whole.codePointAt(before.length) ?? 0) > 0xffff;
}

function pieces(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const cut: Buffer[] = [];
  let at = 0;
  for (let next = 0; at < bytes.length; next++) {
    const size = sizes[next % sizes.length] as number;
    cut.push(bytes.subarray(at, at + size));
    at += size;
  }
  return cut;
}

test("any well-formed stream, cut anywhere, is read as it is read line by line", () => {
  const sizes = fc.array(fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 10, max: 4000 })), {
    minLength: 1,
    maxLength: 12,
  });

  fc.assert(
    fc.property(stream, sizes, (given, sizes) => {
      const text = written(given);
      const wanted = plainReading(text);
      const listener = listen();
      const reader = new ChunkReader(listener.events);

      for (const piece of pieces(Buffer.from(text), sizes)) reader.push(piece);
      const reply = reader.end();

      assert.deepEqual(reply, wanted.reply);
      if (wanted.said !== null) assert.deepEqual(listener.said, wanted.said);
      assert.equal(listener.text, wanted.reply.text);
      for (const delta of listener.deltas) assert.ok(delta !== "" && delta === sound(delta));
    }),
    { numRuns: runs(1500) },
  );
});

test("long runs of similar events, with others among them, are read as line by line", () => {
  const like = fc.array(
    fc.oneof({ weight: 20, arbitrary: fc.string({ minLength: 1, maxLength: 5 }) }, { weight: 1, arbitrary: words }),
    {
      minLength: 60,
      maxLength: 200,
    },
  );

  fc.assert(
    fc.property(
      like,
      fc.integer({ min: 100, max: 20_000 }),
      fc.constantFrom("\n", "\r\n"),
      (contents, size, lineEnd) => {
        const text = written({
          deltas: contents.map((content) => ({ content })),
          finish: "stop",
          usage: null,
          style: {
            lineEnd,
            space: " ",
            changingIds: false,
            obfuscation: false,
            noise: false,
            mark: false,
            json: "dense",
            end: "done",
          },
        });
        const listener = listen();
        const reader = new ChunkReader(listener.events);

        for (const piece of pieces(Buffer.from(text), [size])) reader.push(piece);

        assert.equal(reader.end().text, sound(contents.join("")));
        assert.equal(listener.text, reader.text);
      },
    ),
    { numRuns: runs(200) },
  );
});

test("a stream that is cut off anywhere is a prefix of it or a ChunkError", () => {
  fc.assert(
    fc.property(stream, fc.nat(), fc.nat(), (given, where, size) => {
      const bytes = Buffer.from(written(given));
      const { reply } = plainReading(bytes.toString());
      const listener = listen();
      const reader = new ChunkReader(listener.events);
      const cut = bytes.subarray(0, where % (bytes.length + 1));

      try {
        for (const piece of pieces(cut, [1 + (size % 500)])) reader.push(piece);
        reader.end();
      } catch (error) {
        assert.ok(error instanceof ChunkError, String(error));
      }

      assert.equal(listener.text, reader.text);
      assert.ok(reply.text.startsWith(reader.text) || endsInHalfAPair(reader.text, reply.text));
    }),
    { numRuns: runs(500) },
  );
});

test("any JSON from a provider is an answer or a ChunkError", () => {
  const anything = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<unknown>;
  const or = (wanted: fc.Arbitrary<unknown>) =>
    fc.oneof({ weight: 3, arbitrary: wanted }, { weight: 1, arbitrary: anything });
  const text = or(fc.string({ maxLength: 4 }));
  const call = or(
    fc.record(
      { index: or(fc.nat(3)), id: text, function: or(fc.record({ name: text, arguments: text })) },
      { requiredKeys: [] },
    ),
  );
  const part = or(
    fc.record(
      { type: text, text, thinking: or(fc.array(or(fc.record({ text })), { maxLength: 2 })) },
      { requiredKeys: [] },
    ),
  );
  const choices = or(
    fc.array(
      or(
        fc.record(
          {
            delta: or(
              fc.record(
                {
                  content: or(fc.oneof(text, fc.array(part, { maxLength: 2 }))),
                  reasoning: text,
                  tool_calls: or(fc.array(call, { maxLength: 3 })),
                },
                { requiredKeys: [] },
              ),
            ),
            finish_reason: or(fc.constantFrom("stop", "length", "toString")),
          },
          { requiredKeys: [] },
        ),
      ),
      { maxLength: 2 },
    ),
  );
  const counts = or(
    fc.record({ prompt_tokens: or(fc.nat()), completion_tokens: or(fc.nat()), prompt_tokens_details: anything }),
  );
  const chunk = or(fc.record({ choices, usage: counts }, { requiredKeys: [] }));

  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 5 }), (chunks) => {
      const reader = new ChunkReader(listen().events);

      try {
        for (const document of chunks) reader.push(Buffer.from(`data: ${JSON.stringify(document)}\n\n`));
        const reply = reader.end();

        assert.equal(typeof reply.text, "string");
        assert.equal(typeof reply.stop_reason, "string");
        for (const field of reply.tool_calls.flatMap(Object.values)) assert.equal(typeof field, "string");
        for (const count of Object.values(reply.usage ?? {})) assert.ok(Number.isSafeInteger(count) && count >= 0);
      } catch (error) {
        assert.ok(error instanceof ChunkError, String(error));
      }
    }),
    { numRuns: runs(2000) },
  );
});
