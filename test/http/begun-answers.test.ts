// A long answer whose client disconnects between the first piece and the last. The test records the writes and needs no
// engine.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthenticator } from "../../governance/auth/authenticator.ts";
import { Metrics } from "../../governance/metrics.ts";
import { loadSettings } from "../../governance/settings/settings.ts";
import { createApp } from "../../http/app.ts";
import type { HttpContext } from "../../http/context.ts";
import { Exchange, type ExchangeContext } from "../../http/engines/exchange.ts";
import type { Wire } from "../../http/engines/wire.ts";
import type { Pieces } from "../../http/exchange/reply.ts";
import { route } from "../../http/route.ts";
import { Sim } from "../support/sim-env.ts";

/** A request for pieces from a client that accepts only the head and the first piece. */
function asked(pieces: Pieces) {
  const env = new Sim(1).env();
  const written: string[] = [];
  const wire = {
    remoteAddress: () => "192.0.2.1",
    together: (work: () => void) => work(),
    head: ({ status }) => void written.push(`head ${status}`),
    write: (piece: string) => written.push(piece) < 2,
    endWith: (body: string) => void written.push(`whole ${body}`),
    tellDrained() {},
    close: () => void written.push("close"),
  } as Partial<Wire> as Wire;
  const head = {
    method: "GET",
    path: "/pieces",
    query: "",
    headers: { host: "localhost" },
    fault: null,
    endUnknown: false,
  };
  const exchange = new Exchange(head, wire, false, { env, unanswered: { count: 0 } } as unknown as ExchangeContext);
  const settings = loadSettings({ SVC_LOG_LEVEL: "silent", SVC_RATE_LIMIT: "0" });
  const context = { env, settings, metrics: new Metrics(), closing: () => false } as unknown as HttpContext;
  const given = route({
    ...{ method: "GET", path: "/pieces", summary: "Pieces.", tag: "Test", access: "public", unlimited: true },
    reply: { description: "Pieces." },
    handle: () => ({ kind: "pieces", contentType: "text/plain", pieces }),
  });
  createApp([given], context, createAuthenticator(settings, env))(exchange);
  return { exchange, written };
}

/** Pieces whose first one the test releases. */
function piecesOf() {
  const first = Promise.withResolvers<Awaited<ReturnType<Pieces["next"]>>>();
  const counts = { asked: 0, returned: 0 };
  const pieces: Pieces = {
    next() {
      counts.asked++;
      return counts.asked === 1 ? first.promise : new Promise(() => {});
    },
    async return() {
      counts.returned++;
      return { done: true, value: undefined };
    },
  };
  return { pieces, counts, begin: () => first.resolve({ done: false, value: "first" }) };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("an answer in preparation is cancelled at once when its client disconnects", async () => {
  const { pieces, counts } = piecesOf();
  const { exchange, written } = asked(pieces);
  await turn();

  exchange.gone();

  assert.deepEqual([counts, written], [{ asked: 1, returned: 1 }, []]);
});

test("an answer is cancelled when its client disconnects after a part of it", async () => {
  const { pieces, counts, begin } = piecesOf();
  const { exchange, written } = asked(pieces);
  begin();
  await turn();

  exchange.gone();

  assert.deepEqual([counts, written], [{ asked: 1, returned: 1 }, ["head 200", "first"]]);
});
