// The resources of an answer are released however it ends. The test calls the exchange like an engine and records the
// writes.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Exchange, type ExchangeContext } from "../../../http/engines/exchange.ts";
import { bodyWindowMs, SlowBodies } from "../../../http/engines/slow-bodies.ts";
import type { Drainable, Wire } from "../../../http/engines/wire.ts";
import type { Pieces } from "../../../http/exchange/reply.ts";
import type { RequestHead } from "../../../http/exchange/request-head.ts";
import type { StreamRegistry } from "../../../http/exchange/sse.ts";
import { Sim } from "../../support/sim-env.ts";

/** A request of a client that accepts this much of an answer, head included, and then stalls. */
function asked(method: string, hasBody = false, takes = Number.POSITIVE_INFINITY) {
  const sim = new Sim(1);
  const written: string[] = [];
  let writer: Drainable | null = null;
  const wire: Wire = {
    remoteAddress: () => "192.0.2.1",
    askForBody() {},
    together: (work) => work(),
    head: ({ status }) => void written.push(`head ${status}`),
    endWith: (body) => void written.push(`whole ${body}`),
    endWithoutBody: () => void written.push("end"),
    endBeforeBody: (body) => void written.push(`early ${body}`),
    write(piece) {
      written.push(String(piece));
      return written.length <= takes;
    },
    tellDrained(told) {
      writer = told;
    },
    end: () => void written.push("end"),
    close: () => void written.push("close"),
  };
  const head: RequestHead = { method, path: "/", query: "", headers: {}, fault: null, endUnknown: false };
  const unanswered = { count: 0 };
  const slowBodies = new SlowBodies(sim.env());
  const context: ExchangeContext = {
    env: sim.env(),
    streams: null as unknown as StreamRegistry,
    slowBodies,
    unanswered,
  };
  const exchange = new Exchange(head, wire, hasBody, context);
  return { sim, exchange, written, unanswered, drain: () => writer?.onDrained() };
}

/** Pieces that report whether they were returned early or finished. */
function pieces(...texts: readonly string[]): { pieces: Pieces; ended: () => boolean; made: () => number } {
  let isEnded = false;
  let made = 0;
  async function* make(): AsyncGenerator<string> {
    try {
      for (const text of texts) {
        made++;
        yield text;
      }
    } finally {
      isEnded = true;
    }
  }
  const all = make();
  const given: Pieces = {
    next: () => all.next() as ReturnType<Pieces["next"]>,
    return: async () => {
      // A generator that was never started runs no `finally`.
      isEnded = true;
      return (await all.return(undefined)) as Awaited<ReturnType<Pieces["return"]>>;
    },
  };
  return { pieces: given, ended: () => isEnded, made: () => made };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));
const reply = (given: Pieces) => ({ kind: "pieces", contentType: "application/json", pieces: given }) as const;

describe("an answer in pieces", () => {
  test("is written to its end as the client takes it", async () => {
    const { exchange, written, unanswered, drain } = asked("GET", false, 1);
    const body = pieces("a", "b");
    exchange.reply(reply(body.pieces));
    await turn();
    assert.deepEqual([written, body.made()], [["head 200", "a"], 1]);
    drain();
    await turn();
    drain();
    await turn();

    assert.deepEqual(written, ["head 200", "a", "b", "end"]);
    assert.deepEqual([body.ended(), unanswered.count], [true, 0]);
  });

  test("is given up when the client disconnects while it is behind", async () => {
    const { exchange, written, unanswered } = asked("GET", false, 1);
    const body = pieces("a", "b", "c");
    exchange.reply(reply(body.pieces));
    await turn();

    exchange.gone();
    await turn();

    assert.deepEqual([body.ended(), body.made(), unanswered.count], [true, 1, 0]);
    assert.deepEqual(written, ["head 200", "a"]);
  });

  test("is given up unread for a HEAD request", async () => {
    const { exchange, written, unanswered } = asked("HEAD");
    const body = pieces("a");
    exchange.reply(reply(body.pieces));
    await turn();

    assert.deepEqual([written, body.ended(), body.made(), unanswered.count], [["head 200", "end"], true, 0, 0]);
  });

  test("is returned unstarted if the client has left or another answer was sent", async () => {
    const left = asked("GET");
    const twice = asked("GET");
    const bodies = [pieces("a"), pieces("a")] as const;

    left.exchange.gone();
    left.exchange.reply(reply(bodies[0].pieces));
    twice.exchange.reply({ kind: "text", status: 200, contentType: "text/plain", body: "first" });
    twice.exchange.reply(reply(bodies[1].pieces));
    await turn();

    assert.deepEqual(
      bodies.map((body) => body.ended()),
      [true, true],
    );
    assert.deepEqual([left.written, twice.written], [[], ["head 200", "whole first"]]);
  });
});

test("the body of a disconnected client is not watched any more", async () => {
  const { sim, exchange } = asked("POST", true);
  let refused: unknown = null;
  exchange.body(1_000).catch((error) => {
    refused = error;
  });

  exchange.gone();
  await sim.advance(2 * bodyWindowMs);

  assert.equal(refused, null);
});
