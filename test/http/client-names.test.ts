// Free-form objects of clients cross threads as text, because structured clone is slow for objects with new property
// names.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { RouteRequest } from "../../http/route.ts";
import { nameOf, routes } from "./support.ts";

const name = "a-name-of-the-client";
const parameters = { type: "object", properties: { [name]: {} } };
const principal = { tenant_id: "acme", sub: "a", scopes: ["*"], scheme: "none", issuer: "" };

for (const [of, body] of [
  [
    "POST /chat/sessions/custom",
    { thread_id: "t", content: "", role: "user", in_context: false, metadata: { [name]: 1 } },
  ],
  [
    "POST /v1/chat/completions",
    { model: "quick", messages: [], tools: [{ type: "function", function: { name: "f", parameters } }] },
  ],
  ["POST /v1/responses", { model: "quick", input: "hi", tools: [{ type: "function", name: "f", parameters }] }],
] as const)
  test(`${of} sends the client's names to an actor as text`, async () => {
    const sent: unknown[] = [];
    const bus = {
      node: "here/0",
      nodeOf: () => "here/1",
      openChannel: () => ({ node: "here/0", id: 1 }),
      closeChannel() {},
      async ask(_to: unknown, _type: string, message: unknown) {
        sent.push(message);
        throw new SvcError("mailbox_full");
      },
    };
    const context = {
      bus,
      env: systemEnv(),
      turns: new Set(),
      durableAgents: new Set(),
      store: { tenant() {} },
      settings: { openaiUser: "thread", openaiReasoning: true },
      closing: () => false,
    };
    const exchange = { head: { headers: {} }, onAborted() {} };
    const request = { body, principal, requestId: "r", rawBody: Buffer.alloc(0), lease: null, exchange };
    const route = routes.find((each) => nameOf(each) === of);

    const asked = (async () =>
      route?.handle(request as unknown as RouteRequest<never, never, never>, context as never))();
    await assert.rejects(asked, { code: "mailbox_full" });

    assert.ok(JSON.stringify(sent).includes(name));
    assert.deepEqual(
      [...namesIn(sent)].filter((each) => each === name),
      [],
    );
  });

function* namesIn(value: unknown): Generator<string> {
  if (typeof value !== "object" || value === null) return;
  for (const [each, inside] of Object.entries(value)) {
    yield each;
    yield* namesIn(inside);
  }
}
