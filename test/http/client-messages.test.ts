import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Intake, takeMessages } from "../../actors/run/intake/intake.ts";
import { Bus, type Delivery } from "../../bus/bus.ts";
import { systemEnv } from "../../bus/env.ts";
import { nodeId } from "../../bus/protocol/node-id.ts";
import type { ClientMessage, SubmitTurn } from "../../bus/protocol/run.ts";
import { SlotSet } from "../../bus/slot-map.ts";
import { leanMessages } from "../../http/client-messages.ts";
import type { HttpContext } from "../../http/context.ts";
import { DurableAgents } from "../../http/early-listener.ts";
import type { Exchange } from "../../http/engines/exchange.ts";
import { streamTurn, type TurnFields } from "../../http/streams/turns.ts";
import { compileSpec } from "../manifests/support.ts";
import { runs } from "../support/effort.ts";
import { emptyTurn } from "../support/empty-turn.ts";

const fields: TurnFields = { ...emptyTurn, manifest: "x" };
const principal = { tenant_id: "default", sub: "someone", scopes: [], scheme: "anonymous", issuer: "" } as const;
const agent = compileSpec({ prompts: [{ name: "greet", body: "Hello $1" }] });

/** The log entries that the messages become, or the refusal. */
function taken(messages: readonly ClientMessage[]): unknown {
  const turn: SubmitTurn = {
    ...fields,
    messages,
    run_id: "r",
    principal,
    request_id: "q",
    idempotency: null,
    lease: null,
    channel: { node: nodeId("here", 0), id: 1 },
  };
  try {
    return takeMessages(turn, agent);
  } catch (error) {
    return error;
  }
}

/** A value that usually has the right type and sometimes any other. */
const oftenly = <T>(usual: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 5, arbitrary: usual }, { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) });

const text = fc.constantFrom("", "hi", "/greet Ann", "a\nb");
const part = fc.record(
  {
    type: oftenly(fc.constantFrom("text", "file", "image_url", "input_audio")),
    text: oftenly(text),
    file_id: oftenly(fc.constant("f1")),
    file: oftenly(fc.record({ file_id: oftenly(fc.constant("f1")), extra: fc.jsonValue() }, { requiredKeys: [] })),
    extra: fc.jsonValue(),
  },
  { requiredKeys: [] },
);
/** Excludes lists: a list is not valid arguments, and its JSON form does not matter. */
const argumentsText = oftenly(fc.constantFrom("{}", '{"a":1}', "{", "")).filter((value) => !Array.isArray(value));
const call = fc.record(
  {
    id: fc.string(),
    function: oftenly(fc.record({ name: fc.string(), arguments: argumentsText }, { requiredKeys: [] })),
  },
  { requiredKeys: [] },
);
const message = fc.record(
  {
    role: fc.constantFrom("user", "assistant", "system", "developer", "tool", "function", "king"),
    content: oftenly(fc.oneof(text, fc.array(oftenly(part), { maxLength: 3 }))),
    name: fc.constantFrom("Ann", "x".repeat(129)),
    tool_calls: oftenly(fc.array(oftenly(call), { maxLength: 3 })),
    tool_call_id: fc.constantFrom("c1", "c2"),
    attachments: oftenly(fc.array(fc.record({ url: fc.string() }), { maxLength: 2 })),
    extra: fc.jsonValue(),
  },
  { requiredKeys: ["role"] },
);

test("lean messages have the same result, or the same refusal, as whole ones", () => {
  fc.assert(
    fc.property(fc.array(message, { maxLength: 4 }), (sent) => {
      const messages = sent as ClientMessage[];

      assert.deepEqual(taken(leanMessages(messages)), taken(messages));
    }),
    { numRuns: runs(3000) },
  );
});

test("the id of a call that is no string names no fields of a provider", () => {
  const tool_calls = [{ id: { toString: 1 }, extra_content: { google: {} }, function: { name: "x", arguments: "{}" } }];
  const sent = [{ role: "assistant", content: "", tool_calls }] as unknown as ClientMessage[];

  assert.equal((leanMessages(sent)[0] as { vendor?: unknown }).vendor, undefined);
});

test("at most twenty types of dropped parts are logged", () => {
  const content = Array.from({ length: 5_000 }, (_, at) => ({ type: `odd-${at % 100}` }));

  const { droppedParts } = taken([
    { role: "user", content: "hi" },
    { role: "user", content },
  ]) as Intake;

  assert.deepEqual([droppedParts.length, droppedParts[0], droppedParts[19]], [20, "odd-0", "odd-19"]);
});

const crowd = Object.fromEntries(Array.from({ length: 900 }, (_, at) => [`k${at}`, { at }]));

test("threat 24: unused fields are removed before the messages reach the actor", async () => {
  const delivered: Delivery[] = [];
  const env = systemEnv();
  const bus = new Bus({
    env,
    node: nodeId("here", 0),
    incarnation: 0,
    actorNodes: [nodeId("here", 0)],
    deliver: (one) => void delivered.push(one),
  });
  const live = { turns: new SlotSet(), durableAgents: new DurableAgents(), closing: () => false };
  const context = { bus, env, ...live } as unknown as HttpContext;
  const messages: ClientMessage[] = [
    {
      role: "user",
      content: [
        { type: "text", text: "hi", ...crowd },
        { type: "other", ...crowd },
      ],
      ...crowd,
    },
    { role: "assistant", content: "ho", tool_calls: [{ ...crowd, function: { arguments: "{}", ...crowd } }] },
    { role: "user", content: "hi", attachments: [crowd] },
    { role: "user", content: [{ type: "file", file: { file_id: "f", ...crowd } }, [crowd]] },
  ];
  const head = { headers: {} } as Exchange["head"];
  const exchange = { head, onAborted(_work: () => void) {} } as Exchange;
  const told = { params: {}, query: {}, body: {}, rawBody: Buffer.from("") };
  const request = { ...told, principal, lease: null, requestId: "q", exchange };

  void streamTurn(request, { ...fields, messages }, context).catch(() => {});
  await new Promise((resolve) => setImmediate(resolve));

  const [asked] = delivered.map(({ body }) => body as SubmitTurn);
  assert.deepEqual(asked?.messages, [
    { role: "user", content: [{ type: "text", text: "hi" }, { type: "other" }] },
    { role: "assistant", content: "ho", tool_calls: [{ function: { arguments: "{}" } }] },
    { role: "user", content: "hi", attachments: [{}] },
    { role: "user", content: [{ type: "file", file: { file_id: "f" } }, []] },
  ]);
});
