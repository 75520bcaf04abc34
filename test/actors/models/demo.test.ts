import assert from "node:assert/strict";
import { test } from "node:test";
import { demoProvider } from "../../../actors/models/demo.ts";
import { arithmeticIn } from "../../../actors/models/demo-arithmetic.ts";
import { ModelFailure } from "../../../actors/models/provider.ts";
import { checkArguments } from "../../../actors/tools/arguments.ts";
import { builtInTools } from "../../../actors/tools/registry/built-in.ts";
import { listen, requestTo, stillEnv } from "./support.ts";

const tools = JSON.stringify(
  builtInTools.map(({ name, description, parameters }) => ({
    type: "function",
    function: { name, description, parameters },
  })),
);

function conversation(...messages: object[]): string {
  return JSON.stringify([{ role: "system", content: "Be brief." }, ...messages]);
}

function user(content: string): { messages: string } {
  return { messages: conversation({ role: "user", content }) };
}

async function ask(facts: Parameters<typeof requestTo>[1]) {
  const listener = listen();
  const reply = await demoProvider(stillEnv().env).start(requestTo("demo", facts), listener.events).reply;
  return { reply, listener };
}

test("the demo model introduces itself, repeats the question and names settings", async () => {
  const { reply, listener } = await ask(user("Tell me\n a joke"));

  assert.match(reply.text, /svc's offline demo model/);
  assert.match(reply.text, /“Tell me a joke”/);
  assert.match(reply.text, /OPENAI_API_KEY/);
  assert.equal(reply.stop_reason, "end_turn");
  assert.equal(listener.text, reply.text);
  assert.ok(listener.deltas.length > 5, "in several pieces");
});

test("the same messages get the same answer", async () => {
  const first = await ask(user("Hello"));
  const second = await ask(user("Hello"));

  assert.deepEqual(second.reply, first.reply);
  assert.deepEqual(second.listener.deltas, first.listener.deltas);
});

test("the demo model reports usage, four characters a token", async () => {
  const request = user("Hello");

  const { reply } = await ask(request);

  assert.deepEqual(reply.usage, {
    input: Math.ceil(request.messages.length / 4),
    output: Math.ceil(reply.text.length / 4),
    cacheRead: 0,
    cacheWrite: 0,
  });
});

test("the demo model calls a bound calculator for arithmetic, with valid arguments", async () => {
  const { reply, listener } = await ask({ ...user("What is (6 + 1) * 7?"), tools });

  const [call] = reply.tool_calls;
  assert.equal(reply.tool_calls.length, 1);
  assert.equal(call?.name, "calculator");
  assert.deepEqual(JSON.parse(call?.arguments ?? ""), { expression: "(6 + 1) * 7" });
  assert.match(call?.id ?? "", /^call_[0-9a-f]{32}$/);
  assert.equal(reply.stop_reason, "tool_use");
  assert.equal(listener.text, "");
});

test("the demo model calls no unbound tools", async () => {
  const { reply } = await ask(user("What is 6 * 7? Then make a plan."));

  assert.deepEqual(reply.tool_calls, []);
  assert.equal(reply.stop_reason, "end_turn");
});

test("the demo model answers with the calculator's result, and calls it once", async () => {
  const messages = conversation(
    { role: "user", content: "What is 6 * 7?" },
    {
      role: "assistant",
      content: "",
      tool_calls: [{ id: "x", type: "function", function: { name: "calculator", arguments: "{}" } }],
    },
    { role: "tool", content: "42", tool_call_id: "x" },
  );

  const { reply } = await ask({ messages, tools });

  assert.match(reply.text, /^6 \* 7 = 42\n/);
  assert.deepEqual(reply.tool_calls, []);
});

test("the demo model reports a denied calculator", async () => {
  const messages = conversation(
    { role: "user", content: "What is 6 * 7?" },
    { role: "tool", content: "denied by policy: math requires scope sums", tool_call_id: "x" },
  );

  const { reply } = await ask({ messages, tools });

  assert.match(reply.text, /could not work out 6 \* 7\. The tool says: denied by policy/);
});

for (const [name, content, wanted] of [
  ["a list in the message", "Please plan:\n- buy milk\n2. bake bread", ["buy milk", "bake bread"]],
  [
    "no list in the message",
    "Make me a todo list for the move",
    ["Make the goal clear", "Do the work", "Check the result"],
  ],
] as const) {
  test(`the demo model writes a plan with todo_write from ${name}, with valid arguments`, async () => {
    const { reply } = await ask({ ...user(content), tools });

    const [call] = reply.tool_calls;
    const todoWrite = builtInTools.find((tool) => tool.name === "todo_write");
    assert.ok(todoWrite && (await checkArguments(todoWrite, call?.arguments ?? "", { defer: setImmediate })).ok);
    const { todos } = JSON.parse(call?.arguments ?? "") as { todos: { content: string; status: string }[] };
    assert.deepEqual(
      todos.map((todo) => todo.content),
      wanted,
    );
    assert.equal(todos.filter((todo) => todo.status === "in_progress").length, 1);
  });
}

test("results of an earlier turn do not answer this one", async () => {
  const messages = conversation(
    { role: "user", content: "What is 6 * 7?" },
    { role: "tool", content: "42", tool_call_id: "x" },
    { role: "assistant", content: "42" },
    { role: "user", content: "And 2 + 2?" },
  );

  const { reply } = await ask({ messages, tools });

  assert.equal(reply.tool_calls[0]?.arguments, '{"expression":"2 + 2"}');
});

test("max_tokens cuts the answer off, and half a call is none", async () => {
  const cut = await ask({ ...user("Hello"), max_tokens: 5 });
  const call = await ask({ ...user("What is 6 * 7?"), tools, max_tokens: 2 });

  assert.equal(cut.reply.text.length, 20);
  assert.equal(cut.reply.stop_reason, "max_tokens");
  assert.equal(cut.reply.usage?.output, 5);
  assert.equal(cut.listener.text, cut.reply.text);
  assert.deepEqual(call.reply.tool_calls, []);
  assert.equal(call.reply.stop_reason, "max_tokens");
});

test("an answer is well-formed wherever it is cut", async () => {
  for (let max_tokens = 40; max_tokens < 90; max_tokens++) {
    const { reply } = await ask({ ...user("🦊".repeat(300)), max_tokens });

    assert.ok(reply.text.isWellFormed());
  }
});

test("the demo model stops while paused, and continues at the same position", async () => {
  const world = stillEnv({ holdTimers: true });
  const listener = listen();
  const call = demoProvider(world.env).start(requestTo("demo", user("Hello")), listener.events);
  world.fire();
  world.fire();

  call.pause();
  const waiting = world.waiting;
  call.resume();
  while (world.waiting > 0) world.fire();

  const reply = await call.reply;
  assert.equal(waiting, 0);
  assert.equal(listener.text, reply.text);
});

test("a listener that pauses the demo model within a piece gets nothing until resume", async () => {
  const world = stillEnv({ holdTimers: true });
  const listener = listen(() => call.pause());
  const call = demoProvider(world.env).start(requestTo("demo", user("Hello")), listener.events);

  world.fire();
  const heard = listener.deltas.length;
  world.fire();

  assert.equal(heard, 1);
  assert.equal(listener.deltas.length, 1);
  assert.equal(world.waiting, 0);
  call.abort();
  await assert.rejects(call.reply);
});

test("an abort ends the demo model with its partial text", async () => {
  const world = stillEnv({ holdTimers: true });
  const listener = listen();
  const call = demoProvider(world.env).start(requestTo("demo", user("Hello")), listener.events);
  world.fire();

  call.abort();
  call.resume();

  await assert.rejects(call.reply, (failure) => failure instanceof ModelFailure && failure.partial === listener.text);
  assert.equal(world.waiting, 0);
  assert.equal(listener.deltas.length, 1);
});

for (const [text, wanted] of [
  ["What is 6 * 7?", "6 * 7"],
  ["6 times 7", "6 * 7"],
  ["6 x 7", "6*7"],
  ["10 divided by 4, please", "10 / 4"],
  ["compute (19.99 * 3 + 5) / 2 ** 4.", "(19.99 * 3 + 5) / 2 ** 4"],
  ["(see 6*7)", "6*7"],
  ["what is 24/7?", "24/7"],
  ["24/7 support", null],
  ["call 555-1234", null],
  ["on 2026-11-20 at 10", null],
  ["give me 3-4 ideas", null],
  ["- 3 things\n- 4 things", null],
  ["((((", null],
  ["", null],
] as const) {
  test(`the arithmetic in ${JSON.stringify(text)} is ${wanted}`, () => {
    assert.equal(arithmeticIn(text), wanted);
  });
}
