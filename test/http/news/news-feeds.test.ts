import assert from "node:assert/strict";
import { test } from "node:test";
import { Bus } from "../../../bus/bus.ts";
import { nodeId } from "../../../bus/protocol/node-id.ts";
import { EventStream, StreamRegistry } from "../../../http/exchange/sse.ts";
import { NewsFeeds } from "../../../http/news/news-feeds.ts";
import { Sim } from "../../support/sim-env.ts";

/** A connection that keeps what it gets. */
class Connection {
  text = "";
  isEnded = false;
  write(piece: string | Uint8Array): boolean {
    this.text += Buffer.from(piece).toString();
    return true;
  }
  end(text: string): void {
    this.text += text;
    this.isEnded = true;
  }
  close(): void {}
}

test("a stream of news ends after ten minutes, and its cursor stays valid", async () => {
  const sim = new Sim(1);
  const env = sim.env();
  const node = nodeId("here", 0);
  const bus = new Bus({ env, node, incarnation: 0, actorNodes: [node], deliver: () => {} });
  const feeds = new NewsFeeds(env, bus);
  const registry = new StreamRegistry(1_000_000, () => sim.now);
  const join = (cursor?: string) => {
    const connection = new Connection();
    feeds.join("acme", ["thread"], cursor, new EventStream(connection, registry));
    return connection;
  };
  const listeners = Array.from({ length: 20 }, () => join());

  await sim.advance(9 * 60_000 - 1);
  const early = listeners.filter(({ isEnded }) => isEnded).length;
  await sim.advance(30_000);
  const between = listeners.filter(({ isEnded }) => isEnded).length;
  await sim.advance(30_001);
  const again = join(/^id: (.*)$/m.exec(listeners[0]?.text ?? "")?.[1]);

  assert.equal(early, 0);
  assert.ok(between > 0 && between < 20, String(between));
  for (const { isEnded, text } of listeners) assert.ok(isEnded && text.endsWith("data: [DONE]\n\n"));
  assert.deepEqual([again.text, registry.size], ["", 1]);
});
