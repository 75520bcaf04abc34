import assert from "node:assert/strict";
import { test } from "node:test";
import { ChunkError, MalformedAnswer } from "../../../actors/models/chunk.ts";
import { ChunkReader } from "../../../actors/models/chunk-reader.ts";
import { listen } from "./support.ts";

const done = "data: [DONE]\n\n";

function event(chunk: unknown): string {
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

function choice(delta: unknown, finish_reason: string | null = null): string {
  return event({ id: "c", choices: [{ index: 0, delta, finish_reason }] });
}

function read(...pieces: (string | Buffer)[]) {
  const listener = listen();
  const reader = new ChunkReader(listener.events);
  for (const piece of pieces) reader.push(Buffer.from(piece as string));
  return { reply: reader.end(), listener };
}

/** Reads until it throws. */
function readBroken(...pieces: string[]) {
  const listener = listen();
  const reader = new ChunkReader(listener.events);
  let failure: unknown;
  try {
    for (const piece of pieces) reader.push(Buffer.from(piece));
    reader.end();
  } catch (error) {
    failure = error;
  }
  return { failure, listener, partial: reader.text };
}

test("all text of one socket chunk is one delta, also when its events were learned", () => {
  const tokens = Array.from({ length: 64 }, (_, at) => `tok${at} `);

  const { reply, listener } = read(tokens.map((token) => choice({ content: token })).join("") + done);

  assert.deepEqual(listener.deltas, [tokens.join("")]);
  assert.equal(reply.text, tokens.join(""));
});

test("a report has the number of its pieces, and empty pieces count none", () => {
  const told: unknown[] = [];
  const reader = new ChunkReader({
    text: (delta, pieces) => told.push(["text", delta.length, pieces]),
    reasoning: (delta, pieces) => told.push(["reasoning", delta.length, pieces]),
    calls: (characters, pieces) => told.push(["calls", characters, pieces]),
  });
  const call = (name: string, words: string) =>
    choice({ tool_calls: [{ index: 0, id: "c1", function: { name, arguments: words } }] });
  const words = choice({ content: "word" });

  reader.push(Buffer.from(choice({ reasoning: "Hm" }) + choice({ reasoning: "m." }) + words.repeat(70)));
  reader.push(Buffer.from(choice({ content: "" }).repeat(3) + words + call("sum", '{"a"') + call("sum", ":1}")));
  reader.push(Buffer.from(done));

  assert.deepEqual(told, [
    ["reasoning", 4, 2],
    ["text", 280, 70],
    ["text", 4, 1],
    // The id and the name once, the arguments in two.
    ["calls", "c1".length + "sum".length + '{"a":1}'.length, 2],
  ]);
});

test("text and reasoning of one socket chunk keep their order", () => {
  const { listener, reply } = read(
    choice({ reasoning_content: "Let me " }) +
      choice({ reasoning: "think." }) +
      choice({ content: "It is" }) +
      choice({ content: " so." }) +
      choice({ reasoning_content: "Is it?" }) +
      done,
  );

  assert.deepEqual(listener.said, [
    { kind: "reasoning", words: "Let me think." },
    { kind: "text", words: "It is so." },
    { kind: "reasoning", words: "Is it?" },
  ]);
  assert.equal(reply.reasoning, "Let me think.Is it?");
});

test("an event that only resembles the learned one is parsed by itself", () => {
  const plain = choice({ content: "a" });
  const looks = [
    choice({ content: 'b","finish_reason":"length' }),
    choice({ content: "c\n\\" }),
    event({ id: "c", choices: [{ index: 0, delta: { content: "d" }, finish_reason: "length" }] }),
    event({ id: "other", choices: [{ index: 0, delta: { content: "e" }, finish_reason: null }] }),
    event({ id: "c", choices: [{ index: 0, delta: { content: "f", tool_calls: [{ index: 0, id: "x" }] } }] }),
  ];

  const { reply } = read(plain + plain + looks.join(plain) + plain + done);

  assert.equal(reply.text, 'aab","finish_reason":"lengthac\n\\adaeafa');
  assert.equal(reply.stop_reason, "max_tokens");
  assert.deepEqual(reply.tool_calls, [{ id: "x", name: "", arguments: "" }]);
});

test("a frame with two contents is not learned", () => {
  const twice = (outer: string, inner: string) =>
    `data: {"content":"${outer}","choices":[{"delta":{"content":"${inner}"},"finish_reason":null}]}\n\n`;

  const { reply } = read(twice("x", "x") + twice("y", "x") + twice("x", "z") + done);

  assert.equal(reply.text, "xxz");
});

test("an event with more than content is not learned", () => {
  const call = { index: 0, id: "x", function: { name: "f", arguments: "1" } };
  const both = choice({ content: "a", tool_calls: [call] });
  const thoughtful = choice({ content: "b", reasoning: "Hm." });
  const last = choice({ content: "c" }, "length");
  const stop = choice({ content: "c" }, "stop");

  const { reply } = read(both + both + both + done);
  const thinking = read(thoughtful + thoughtful + thoughtful + done).reply;
  const ended = read(last + stop + last + done).reply;

  assert.deepEqual(reply.tool_calls, [{ id: "x", name: "f", arguments: "111" }]);
  assert.equal(thinking.reasoning, "Hm.Hm.Hm.");
  assert.equal(ended.stop_reason, "max_tokens");
});

test("events after [DONE] are ignored", () => {
  const { reply, listener } = read(
    choice({ content: "a" }),
    choice({ content: "b" }),
    done,
    choice({ content: "c" }),
    "data: x\n\n",
  );

  assert.equal(reply.text, "ab");
  assert.equal(listener.text, "ab");
});

test("tool calls come in fragments, alternating and with gaps between their indexes", () => {
  const fragment = (index: number, part: object) => choice({ tool_calls: [{ index, ...part }] });

  const { reply } = read(
    fragment(7, { id: "call_b", function: { name: "glob", arguments: "" } }),
    fragment(2, { id: "call_a", function: { name: "calc", arguments: '{"ex' } }),
    fragment(7, { function: { arguments: '{"pattern"' } }),
    fragment(2, { function: { name: "ulator", arguments: 'pression":' } }),
    fragment(7, { function: { arguments: ':"*"}' } }),
    fragment(2, { function: { arguments: '"1"}' } }),
    choice({}, "tool_calls") + done,
  );

  assert.deepEqual(reply.tool_calls, [
    { id: "call_a", name: "calculator", arguments: '{"expression":"1"}' },
    { id: "call_b", name: "glob", arguments: '{"pattern":"*"}' },
  ]);
  assert.equal(reply.stop_reason, "tool_use");
});

test("calls with equal or missing numbers are distinguished by their ids", () => {
  const call = (id: string, index?: number) => ({
    id,
    ...(index === undefined ? {} : { index }),
    function: { name: "f", arguments: `{"a":"${id}"}` },
  });
  const wanted = ["x", "y"].map((id) => ({ id, name: "f", arguments: `{"a":"${id}"}` }));

  const alike = read(choice({ tool_calls: [call("x", 0)] }), choice({ tool_calls: [call("y", 0)] }), done);
  const unnumbered = read(choice({ tool_calls: [call("x"), call("y")] }), done);

  assert.deepEqual(alike.reply.tool_calls, wanted);
  assert.deepEqual(unnumbered.reply.tool_calls, wanted);
});

test("whole calls with equal numbers and no ids are distinguished", () => {
  const call = (name: string, words: string) =>
    choice({ tool_calls: [{ index: 0, id: "", function: { name, arguments: words } }] });

  const { reply } = read(
    call("f", '{"a":{"b":1}}') + call("f", '{"a":2}') + call("g", "{}"),
    // In pieces, with the name in each of them.
    call("h", '{"a":') + call("h", '{"b":1}') + call("h", "}"),
    done,
  );

  assert.deepEqual(
    reply.tool_calls.map(({ name, arguments: words }) => [name, words]),
    [
      ["f", '{"a":{"b":1}}'],
      ["f", '{"a":2}'],
      ["g", "{}"],
      ["h", '{"a":{"b":1}}'],
    ],
  );
});

test("an empty piece after a whole call without an id belongs to that call", () => {
  const call = (words: string) => choice({ tool_calls: [{ index: 0, function: { name: "f", arguments: words } }] });

  const { reply } = read(call('{"a":1}') + call("") + call('{"a":2}') + call(""), done);

  assert.deepEqual(
    reply.tool_calls.map(({ arguments: words }) => words),
    ['{"a":1}', '{"a":2}'],
  );
});

test("many pieces that each look like a whole call are one call, read a few times only", (context) => {
  const piece = choice({ tool_calls: [{ index: 0, function: { name: "f", arguments: `{"a":"${"x".repeat(200)}}` } }] });
  const pieces = 2_000;
  const parse = context.mock.method(JSON, "parse");

  const { reply } = read(piece.repeat(pieces), done);

  const chars = parse.mock.calls.reduce((sum, { arguments: [text] }) => sum + String(text).length, 0);
  assert.equal(reply.tool_calls.length, 1);
  assert.ok(chars < 3 * piece.length * pieces, `${chars} characters were read`);
});

test("arguments as an object, and not as a text, are read", () => {
  const call = { id: "x", index: 0, function: { name: "f", arguments: { city: "Riga" } } };

  const { reply } = read(choice({ tool_calls: [call] }), done);

  assert.deepEqual(reply.tool_calls, [{ id: "x", name: "f", arguments: '{"city":"Riga"}' }]);
});

test("a fragment without a number belongs to the call before it", () => {
  const { reply } = read(
    choice({ tool_calls: [{ id: "x", function: { name: "f", arguments: '{"a"' } }] }),
    choice({ tool_calls: [{ function: { arguments: ":1}" } }] }),
    done,
  );

  assert.deepEqual(reply.tool_calls, [{ id: "x", name: "f", arguments: '{"a":1}' }]);
});

test("a name repeated in every fragment is one name", () => {
  const fragment = (words: string) =>
    choice({ tool_calls: [{ index: 0, id: "x", function: { name: "glob", arguments: words } }] });

  const { reply } = read(fragment("{"), fragment("}"), done);

  assert.deepEqual(reply.tool_calls, [{ id: "x", name: "glob", arguments: "{}" }]);
});

test("content in parts is text and thinking", () => {
  const { listener } = read(
    choice({ content: [{ type: "thinking", thinking: [{ type: "text", text: "Hm." }] }] }),
    choice({ content: [{ type: "text", text: "Yes" }, null, { type: "image" }] }),
    done,
  );

  assert.deepEqual(listener.said, [
    { kind: "reasoning", words: "Hm." },
    { kind: "text", words: "Yes" },
  ]);
});

for (const [finish, reason] of [
  ["stop", "end_turn"],
  ["end_turn", "end_turn"],
  ["tool_calls", "end_turn"],
  ["function_call", "end_turn"],
  ["tool_use", "end_turn"],
  ["length", "max_tokens"],
  ["max_tokens", "max_tokens"],
  ["MAX_TOKENS", "max_tokens"],
  ["model_length", "max_tokens"],
  ["model_context_window_exceeded", "max_tokens"],
  ["stop_sequence", "stop_sequence"],
  ["pause_turn", "pause_turn"],
  ["content_filter", "refusal"],
  ["sensitive", "refusal"],
  ["refusal", "refusal"],
  ["something else", "unknown"],
  ["constructor", "unknown"],
  ["__proto__", "unknown"],
] as const) {
  test(`STREAM-047 the provider's finish reason ${finish} without a call is the stop reason ${reason}`, () => {
    const { reply } = read(choice({ content: "a" }), choice({}, finish), done);

    assert.equal(reply.stop_reason, reason);
  });
}

for (const finish of ["tool_calls", "function_call", "tool_use", "stop"]) {
  test(`STREAM-047 the provider's finish reason ${finish} after a call is the stop reason tool_use`, () => {
    const called = choice({ tool_calls: [{ index: 0, id: "c1", function: { name: "f", arguments: "{}" } }] });

    assert.equal(read(called, choice({}, finish), done).reply.stop_reason, "tool_use");
  });
}

for (const [name, last, message, status] of [
  ["error", choice({}, "error"), /ended the answer with "error"/, 0],
  ["ERROR", choice({}, "ERROR"), /ended the answer with "ERROR"/, 0],
  ["insufficient_system_resource", choice({}, "insufficient_system_resource"), /insufficient_system_resource/, 0],
  ["network_error", choice({}, "network_error"), /network_error/, 0],
  ["abort", choice({}, "abort"), /abort/, 0],
  [
    "an error object in the choice",
    event({
      choices: [{ index: 0, delta: { content: "" }, finish_reason: "error", error: { code: 502, message: "Down." } }],
    }),
    /^Down\.$/,
    502,
  ],
  ["an error object in a list", event([{ error: { code: "503", message: "Full." } }]), /^Full\.$/, 503],
] as const) {
  test(`an answer that ends with ${name} fails, and keeps its partial text`, () => {
    const { failure, partial } = readBroken(choice({ content: "Hello" }), last, done);

    assert.ok(failure instanceof ChunkError && !(failure instanceof MalformedAnswer), String(failure));
    assert.match(failure.message, message);
    assert.deepEqual([failure.status, partial], [status, "Hello"]);
  });
}

for (const [name, body] of [
  ["[DONE] alone", ""],
  ["a role and [DONE]", choice({ role: "assistant", content: "" })],
  ["usage and [DONE]", event({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 0, total_tokens: 7 } })],
] as const) {
  test(`an answer of ${name} has failed`, () => {
    assert.match(String(readBroken(body, done).failure), /the answer is empty/);
  });
}

test("an answer without text that has a stop reason is an answer", () => {
  assert.deepEqual(
    [read(choice({}, "stop"), done).reply.text, read(choice({}, "stop"), done).reply.stop_reason],
    ["", "end_turn"],
  );
});

test("STREAM-047 an OpenAI refusal is both the text of the answer and a refusal", () => {
  const { reply, listener } = read(
    choice({ role: "assistant", content: null, refusal: "" }) + choice({ content: "No. ", refusal: null }).repeat(2),
    choice({ refusal: "I will " }) + choice({ refusal: "not." }),
    choice({}, "stop") + done,
  );

  assert.deepEqual([reply.text, reply.stop_reason, reply.tool_calls], ["No. No. I will not.", "refusal", []]);
  assert.equal(listener.text, "No. No. I will not.");
});

test("STREAM-047 the calls of a refused answer are not made", () => {
  const call = { index: 0, id: "x", function: { name: "f", arguments: "{}" } };

  const { reply } = read(choice({ content: "Well" }), choice({ tool_calls: [call] }, "content_filter"), done);

  assert.deepEqual([reply.text, reply.stop_reason, reply.tool_calls], ["Well", "refusal", []]);
});

test("STREAM-047 a stream that ends without a reason has stop reason unknown", () => {
  assert.equal(read(choice({ content: "a" }), done).reply.stop_reason, "unknown");
});

test("STREAM-047 a provider that says stop next to tool calls means tool_use", () => {
  const { reply } = read(choice({ tool_calls: [{ index: 0, id: "x", function: { name: "f" } }] }, "stop"), done);

  assert.equal(reply.stop_reason, "tool_use");
});

test("STREAM-048 usage is the provider's count, and null when it reported none", () => {
  const usage = { prompt_tokens: 50, completion_tokens: 5, total_tokens: 55 };

  const { reply } = read(choice({ content: "a" }, "stop"), event({ choices: [], usage }), done);
  const silent = read(choice({ content: "a" }, "stop"), done).reply;

  assert.deepEqual(reply.usage, { input: 50, output: 5, cacheRead: 0, cacheWrite: 0 });
  assert.equal(silent.usage, null);
});

for (const [form, details] of [
  ["OpenAI", { prompt_tokens_details: { cached_tokens: 30, cache_creation_tokens: 8 } }],
  ["Anthropic", { cache_read_input_tokens: 30, cache_creation_input_tokens: 8 }],
] as const) {
  test(`STREAM-049 input excludes cached tokens, in ${form}'s form: the three add up to the prompt`, () => {
    const usage = { prompt_tokens: 50, completion_tokens: 5, total_tokens: 55, ...details };

    const { reply } = read(choice({}, "stop"), event({ choices: [], usage }), done);

    assert.deepEqual(reply.usage, { input: 12, output: 5, cacheRead: 30, cacheWrite: 8 });
  });
}

test("STREAM-049 DeepSeek's cache hits are cached tokens", () => {
  const usage = { prompt_tokens: 50, completion_tokens: 5, prompt_cache_hit_tokens: 40, prompt_cache_miss_tokens: 10 };

  const { reply } = read(choice({}, "stop"), event({ choices: [], usage }), done);

  assert.deepEqual(reply.usage, { input: 10, output: 5, cacheRead: 40, cacheWrite: 0 });
});

test("reasoning tokens outside completion_tokens are still output", () => {
  const usage = { prompt_tokens: 20, completion_tokens: 151, total_tokens: 553 };

  const { reply } = read(choice({}, "stop"), event({ choices: [], usage }), done);

  assert.equal(reply.usage?.output, 533);
});

test("an answer of nothing but reasoning has only the total, and that is read", () => {
  const usage = { prompt_tokens: 20, total_tokens: 553 };

  const { reply } = read(choice({}, "length"), event({ choices: [], usage }), done);

  assert.deepEqual(reply.usage, { input: 20, output: 533, cacheRead: 0, cacheWrite: 0 });
});

for (const usage of [
  {},
  [],
  { prompt_tokens: "50", completion_tokens: "250", total_tokens: "300" },
  { prompt_tokens: 50, completion_tokens: null },
  { prompt_tokens: 50, completion_tokens: "250", total_tokens: 50 },
  { prompt_tokens: null, completion_tokens: 250, total_tokens: 300 },
  { prompt_tokens: 50.5, completion_tokens: 250.5 },
  { prompt_tokens: -5, completion_tokens: "many", total_tokens: 1e300, prompt_tokens_details: 7 },
  { prompt_tokens: 50, completion_tokens: 1e300 },
])
  test(`usage that cannot be is none: ${JSON.stringify(usage)}`, () => {
    const earlier = { prompt_tokens: 50, completion_tokens: 1 };
    const { reply } = read(event({ choices: [], usage: earlier }), choice({}, "stop"), event({ choices: [], usage }));

    assert.equal(reply.usage, null);
  });

const zeros = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, prompt_tokens_details: { cached_tokens: 0 } };

for (const [what, reports, tokens] of [
  [
    "cache writes of OpenRouter are part of the prompt",
    [
      {
        prompt_tokens: 1010,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 1000, cache_write_tokens: 8 },
      },
    ],
    { input: 2, output: 5, cacheRead: 1000, cacheWrite: 8 },
  ],
  [
    "a prompt that is less than what was cached is without it",
    [{ prompt_tokens: 10, completion_tokens: 5, total_tokens: 1015, cache_read_input_tokens: 1000 }],
    { input: 10, output: 5, cacheRead: 1000, cacheWrite: 0 },
  ],
  [
    "a total without the cached tokens takes nothing from the output",
    [{ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, cache_read_input_tokens: 1000 }],
    { input: 10, output: 5, cacheRead: 1000, cacheWrite: 0 },
  ],
  [
    "input_tokens and output_tokens are read",
    [{ input_tokens: 50, output_tokens: 7, input_tokens_details: { cached_tokens: 40 } }],
    { input: 10, output: 7, cacheRead: 40, cacheWrite: 0 },
  ],
  [
    "zeros under one name say nothing beside figures under another",
    [{ prompt_tokens: 0, completion_tokens: 0, input_tokens: 50, output_tokens: 7 }],
    { input: 50, output: 7, cacheRead: 0, cacheWrite: 0 },
  ],
  [
    "zeros behind figures say nothing",
    [{ prompt_tokens: 50, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 40 } }, zeros],
    { input: 10, output: 5, cacheRead: 40, cacheWrite: 0 },
  ],
  ["zeros alone are no usage", [zeros], null],
  [
    "reasoning is part of the output",
    [{ prompt_tokens: 50, completion_tokens: 25, completion_tokens_details: { reasoning_tokens: 20 } }],
    { input: 50, output: 25, cacheRead: 0, cacheWrite: 0, reasoning: 20 },
  ],
] as const)
  test(`usage: ${what}`, () => {
    const { reply } = read(choice({}, "stop"), ...reports.map((usage) => event({ choices: [], usage })), done);

    assert.deepEqual(reply.usage, tokens);
  });

test("invalid counts next to those of prompt and answer are zero", () => {
  const usage = { prompt_tokens: 50, completion_tokens: 5, total_tokens: 1e300, prompt_tokens_details: 7 };
  const odd = { ...usage, prompt_tokens_details: { cached_tokens: "40" }, cache_creation_input_tokens: -8 };

  for (const reported of [usage, odd]) {
    const { reply } = read(choice({}, "stop"), event({ choices: [], usage: reported }), done);

    assert.deepEqual(reply.usage, { input: 50, output: 5, cacheRead: 0, cacheWrite: 0 });
  }
});

test("an event that is not JSON breaks the stream, and the text before it is kept", () => {
  const { failure, partial, listener } = readBroken(`${choice({ content: "Hello" })}data: {broken\n\n`);

  assert.ok(failure instanceof ChunkError);
  assert.equal(failure.message, "a line of the stream is not JSON");
  assert.equal(partial, "Hello");
  assert.equal(listener.text, "Hello");
});

test("an event whose data is no object is ignored", () => {
  const padding = ["null", '"ping"', "ping", "7", "true", "OPENROUTER PROCESSING", ""];
  const noise = padding.map((data) => `event: ping\ndata: ${data}\n\n`);

  const { reply } = read(...noise.map((one, at) => one + choice({ content: String(at) })), choice({}, "stop"), done);

  assert.equal(reply.text, "0123456");
});

for (const [name, pieces, whole] of [
  ["repeated", ['{"a":1}', '{"a":1}', '{"a":1}'], '{"a":1}'],
  ["cumulative", ['{"a', '{"a":', '{"a":1}'], '{"a":1}'],
  ["sent in pieces and then whole", ['{"a"', ":1}", '{"a":1}'], '{"a":1}'],
  ["empty first", ["{}", '{"a":1}'], '{"a":1}'],
  ["corrected", ['{"a":1}', '{"a":2}'], '{"a":2}'],
  ["in pieces of which the last is an object", ['{"a":', '{"b":1}', "}"], '{"a":{"b":1}}'],
  ["in pieces that are cut off behind an object", ['{"a":[', "{}"], '{"a":[{}'],
  ["cut off", ['{"a":', '"b'], '{"a":"b'],
  ["one text", ['"x"'], '"x"'],
] as const) {
  test(`the arguments of a call that are ${name} are read as ${whole}`, () => {
    const events = pieces.map((words) =>
      choice({ tool_calls: [{ index: 0, id: "c1", function: { name: "f", arguments: words } }] }),
    );

    assert.deepEqual(read(...events, choice({}, "tool_calls"), done).reply.tool_calls, [
      { id: "c1", name: "f", arguments: whole },
    ]);
  });
}

test("the name of a tool ends at a control token of the model", () => {
  const names = ["calculator<|channel|>commentary", "calculator <|constrain|>json", "<|channel|>analysis", "a<b"];
  const calls = names.map((name, index) => ({ index, id: `c${index}`, function: { name, arguments: "{}" } }));

  const { reply } = read(choice({ tool_calls: calls }), choice({}, "tool_calls"), done);

  assert.deepEqual(
    reply.tool_calls.map(({ name }) => name),
    ["calculator", "calculator", "<|channel|>analysis", "a<b"],
  );
});

test("a stream that is cut inside a line is broken", () => {
  const cut = choice({ content: "lost" }).slice(0, 40);

  const { failure, partial } = readBroken(choice({ content: "Hello" }), cut);

  assert.ok(failure instanceof ChunkError);
  assert.equal(partial, "Hello");
});

for (const [name, body] of [
  ["an empty body", ""],
  ["comments alone", ": waiting\n\n: waiting\n\n"],
  ["words without an end", choice({ content: "Hello" })],
  ["an empty finish reason", choice({ content: "Hello" }, "")],
  ["a page of HTML", "<html>\n<h1>It works!</h1>\n</html>\n"],
] as const) {
  test(`${name}: the stream ended before the answer did`, () => {
    assert.match(String(readBroken(body).failure), /the stream ended before the answer did/);
  });
}

test("an answer with a stop reason is whole without [DONE] and a last line break", () => {
  const { reply } = read(choice({ content: "Hello" }), choice({}, "stop").trimEnd());

  assert.equal(reply.text, "Hello");
  assert.equal(reply.stop_reason, "end_turn");
});

test("an error inside the stream breaks it with the provider's text and status", () => {
  const openAi = readBroken(event({ error: { message: "The engine broke.", type: "server_error", code: "broke" } }));
  const openRouter = readBroken(event({ error: { code: 429, message: "Slow down." }, choices: [] }));
  const bare = readBroken(event({ error: "no" }));

  assert.deepEqual(openAi.failure, new ChunkError("The engine broke."));
  assert.deepEqual(openRouter.failure, new ChunkError("Slow down.", 429));
  assert.deepEqual(bare.failure, new ChunkError("no"));
});

test("an endless line is cut off at its bound", () => {
  const reader = new ChunkReader(listen().events);
  const mebibyte = Buffer.alloc(1024 * 1024, "x");
  let pushed = 0;

  assert.throws(() => {
    for (; pushed < 64; pushed++) reader.push(mebibyte);
  }, /a line of the stream is too long/);

  assert.equal(pushed, 16);
});

test("an endless event is cut off at its bound", () => {
  const reader = new ChunkReader(listen().events);
  const lines = Buffer.from("data: 1\n".repeat(64 * 1024));

  assert.throws(() => {
    for (let pushed = 0; pushed < 64; pushed++) reader.push(lines);
  }, /an event of the stream is too long/);
});

test("an endless answer is cut off at its bound", () => {
  for (const delta of [
    { content: "x".repeat(64 * 1024) },
    { reasoning: "x".repeat(64 * 1024) },
    { tool_calls: [{ index: 0, function: { arguments: "x".repeat(64 * 1024) } }] },
  ]) {
    const reader = new ChunkReader(listen().events);
    const chunk = Buffer.from(choice(delta));

    assert.throws(() => {
      for (let pushed = 0; pushed < 512; pushed++) reader.push(chunk);
    }, /the answer is too long/);
  }
});

test("tool calls over their bound break the stream", () => {
  const calls = Array.from({ length: 2000 }, (_, index) => ({ index, id: `c${index}`, function: { name: "f" } }));

  assert.match(String(readBroken(choice({ tool_calls: calls })).failure), /too many tool calls/);
});

test("a long line in pieces of one byte is read", () => {
  const text = "ü".repeat(100_000);
  const bytes = Buffer.from(choice({ content: text }) + done);
  const listener = listen();
  const reader = new ChunkReader(listener.events);

  for (const byte of bytes) reader.push(Buffer.of(byte));

  assert.equal(reader.end().text, text);
});

test("an answer that was not streamed is read whole", () => {
  const listener = listen();
  const message = {
    role: "assistant",
    content: "Hello\n",
    tool_calls: [
      { id: "x", type: "function", function: { name: "f", arguments: "{}" } },
      { id: "y", type: "function", function: { name: "f", arguments: "{}" } },
    ],
  };
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };

  const reply = new ChunkReader(listener.events).whole(
    JSON.stringify({ choices: [{ index: 0, message, finish_reason: "tool_calls" }], usage }, null, 2),
  );

  assert.equal(reply.text, "Hello\n");
  assert.equal(listener.text, "Hello\n");
  assert.deepEqual(
    reply.tool_calls.map(({ id }) => id),
    ["x", "y"],
  );
  assert.deepEqual(reply.usage, { input: 3, output: 2, cacheRead: 0, cacheWrite: 0 });
});
