// Connections between hosts over a carrier that loses entries.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Batch, protocolVersion } from "../../bus/envelope.ts";
import { type NodeId, nodeId } from "../../bus/protocol/node-id.ts";
import { RemoteLinks } from "../../bus/remote-links.ts";
import type { Transport } from "../../bus/transport.ts";
import { Sim } from "../support/sim-env.ts";

const [left, right] = [nodeId("left", 0), nodeId("right", 0)];
const batchOf = (text: string): Batch => ({ version: protocolVersion, ack: 0, bytes: 1, items: [5, "topic", text] });

/** Two hosts, with a log of the batches and losses of each. */
function twoHosts(protocols: Readonly<Record<string, number>> = {}) {
  const sim = new Sim(1, { orderly: true });
  const log: string[] = [];
  const ends = new Map<NodeId, RemoteLinks>();
  const accepted = new Map<NodeId, Transport>();
  /** Entries that the carrier loses, by their first byte. */
  const losing = new Set<number>();
  /** Entries whose rest the carrier replaces, by their first byte. */
  const corrupt = new Set<number>();
  const sent: number[] = [];
  /** Versions of the batches. */
  const versions = new Set<number>();
  const onLost = new Map<NodeId, () => void>();
  const listen = (name: string, transport: Transport): Transport => {
    transport.onBatch(({ items }) => void log.push(`${name} got ${items[2]}`));
    return transport;
  };
  const add = (own: NodeId, other: NodeId, name: string): RemoteLinks => {
    const links: RemoteLinks = new RemoteLinks({
      env: sim.env(),
      host: name,
      protocol: protocols[name] ?? protocolVersion,
      send: (_to, entry) => {
        const kind = entry[0] as number;
        sent.push(kind);
        if (kind === 2) versions.add(Buffer.from(entry).readUInt16BE(37));
        if (losing.has(kind)) return;
        const copy = Uint8Array.from(entry);
        if (corrupt.has(kind)) copy.fill(255, 37);
        sim.plan(sim.env(), 1, () => ends.get(other)?.take(own, copy));
      },
      accept: (from, transport) => void accepted.set(from, listen(name, transport)),
      lost: () => {
        log.push(`${name} lost`);
        onLost.get(own)?.();
      },
    });
    links.setHosts(["left", "right"]);
    ends.set(own, links);
    return links;
  };
  const [a, b] = [add(left, right, "left"), add(right, left, "right")];
  const dial = (): Transport => {
    const transport = a.dial(right);
    assert.ok(transport);
    return listen("left", transport);
  };
  return { sim, a, b, log, losing, corrupt, sent, versions, dial, accepted, onLost };
}

test("an idle connection stays open by beats", async () => {
  const { sim, dial, log, sent } = twoHosts();
  dial().post(batchOf("one"));
  await sim.advance(60_000);

  const beats = sent.filter((kind) => kind === 4).length;

  assert.deepEqual(log, ["right got one"]);
  assert.ok(beats > 40 && beats < 80, `${beats} beats`);
});

test("both sides lose a connection on which nothing arrives", async () => {
  const { sim, dial, log, losing } = twoHosts();
  dial().post(batchOf("one"));
  await sim.advance(100);

  for (const kind of [1, 2, 3, 4]) losing.add(kind);
  await sim.advance(10_000);

  assert.deepEqual(log.toSorted(), ["left lost", "right got one", "right lost"]);
});

test("the loss of the last batch is noticed by the next beat", async () => {
  const { sim, dial, log, losing } = twoHosts();
  const transport = dial();
  transport.post(batchOf("one"));
  await sim.advance(100);

  losing.add(2);
  transport.post(batchOf("two"));
  await sim.advance(100);
  losing.clear();
  await sim.advance(4_000);

  assert.deepEqual(log.toSorted(), ["left lost", "right got one", "right lost"]);
});

test("a connection that a listener opens during a loss survives the greeting that caused it", async () => {
  const { sim, a, b, dial, log, onLost, accepted } = twoHosts();
  dial().post(batchOf("one"));
  await sim.advance(100);
  // The left side begins anew without a word, and the right side opens a connection as soon as it knows of the loss.
  let opened: Transport | null = null;
  onLost.set(right, () => {
    opened = b.dial(left);
  });
  a.setCut(true);
  a.setCut(false);

  dial().post(batchOf("two"));
  await sim.advance(5_000);
  (opened as Transport | null)?.onBatch(({ items }) => void log.push(`right got ${items[2]}`));
  accepted.get(left)?.post(batchOf("ignored"));
  await sim.advance(5_000);

  assert.deepEqual(
    log.filter((line) => line.endsWith("lost")),
    ["left lost", "right lost"],
  );
});

test("bytes that are no batch close the connection and nothing else", async () => {
  const { sim, a, b, dial, log, corrupt } = twoHosts();
  dial().post(batchOf("one"));
  await sim.advance(100);

  const random = Uint8Array.from({ length: 200 }, () => sim.int(256));
  for (let kind = 0; kind < 6; kind++) b.take(left, Uint8Array.from([kind, ...random]));
  b.take(left, new Uint8Array(3));
  corrupt.add(2);
  a.dial(right);
  await sim.advance(100);
  const before = [...log];
  dial().post(batchOf("two"));
  await sim.advance(100);
  corrupt.clear();
  dial().post(batchOf("three"));
  await sim.advance(100);

  assert.deepEqual(before, ["right got one", "right lost"]);
  assert.ok(!log.includes("right got two"));
  assert.equal(log.at(-1), "right got three");
  assert.ok(b.refusedCount >= 7);
});

test("batches are numbered beyond 32 bits", async () => {
  const { sim, dial, log } = twoHosts();
  const transport = dial();
  await sim.advance(100);

  for (let n = 0; n < 1_500; n++) transport.post(batchOf(`${n}`));
  await sim.advance(100);

  assert.equal(log.length, 1_500);
  assert.equal(log.at(-1), "right got 1499");
});

for (const [one, other] of [
  [1, 2],
  [2, 1],
] as const)
  test(`a host of protocol ${one} and one of ${other} use version 1 on the wire`, async () => {
    const { sim, dial, log, versions } = twoHosts({ left: one, right: other });
    dial().post(batchOf("one"));
    await sim.advance(100);

    assert.deepEqual(log, ["right got one"]);
    assert.deepEqual([...versions], [1]);
  });

test("a connection to a host two protocol versions away is refused on both sides", async () => {
  const { sim, a, b, dial, log } = twoHosts({ left: 1, right: 3 });
  dial().post(batchOf("one"));
  await sim.advance(5_000);

  assert.deepEqual(log, ["left lost"]);
  assert.ok(b.refusedCount > 0);
  assert.equal(a.refusedCount, 0);
});
