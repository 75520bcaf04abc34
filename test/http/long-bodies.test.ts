// Several bodies that take milliseconds to parse must not share one turn of the event loop. The exchanges run the real
// request path, with all bodies present at once.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemEnv } from "../../bus/env.ts";
import { Type } from "../../bus/type.ts";
import { loadSettings } from "../../governance/settings/settings.ts";
import { createApp } from "../../http/app.ts";
import type { HttpContext } from "../../http/context.ts";
import type { Exchange } from "../../http/engines/exchange.ts";
import type { Reply } from "../../http/exchange/reply.ts";
import { route } from "../../http/route.ts";

/** The turns of the event loop in which each of eight requests with such a body is handled. */
async function turnsOf(bodyBytes: number): Promise<number[]> {
  const env = systemEnv();
  const context = {
    ...{ env, settings: loadSettings({}), metrics: { count() {} }, closing: () => false },
  } as unknown as HttpContext;
  let turn = 0;
  let isOver = false;
  const handledIn: number[] = [];
  const take = route({
    method: "POST",
    path: "/texts",
    summary: "Takes a text",
    tag: "test",
    access: "public",
    unlimited: true,
    body: Type.Object({ text: Type.String() }),
    reply: { description: "It is taken" },
    handle() {
      handledIn.push(turn);
      return { kind: "json", status: 200, body: "{}" };
    },
  });
  const onRequest = createApp([take], context, null as never);
  const body = Buffer.from(JSON.stringify({ text: "x".repeat(bodyBytes) }));
  const count = () => {
    turn++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => {
      const { promise, resolve } = Promise.withResolvers<Reply>();
      const head = {
        ...{ method: "POST", path: "/texts", query: "", fault: null, endUnknown: false },
        headers: { host: "localhost", "content-type": "application/json" },
      };
      const exchange = { head, extraHeaders: [], body: () => Promise.resolve(body), reply: resolve };
      onRequest(exchange as unknown as Exchange);
      return promise;
    }),
  );
  isOver = true;
  for (const answer of answers) assert.equal("status" in answer && answer.status, 200);
  return handledIn;
}

test("long bodies are read in separate turns of the event loop, short ones at once", async () => {
  const short = await turnsOf(1_000);
  const long = await turnsOf(200_000);

  assert.equal(new Set(short).size, 1);
  assert.equal(new Set(long).size, 8);
  assert.deepEqual(
    long,
    long.toSorted((a, b) => a - b),
  );
});
