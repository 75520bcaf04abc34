// A host that has drained, and another that does not know it yet and still sends turns to it.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { threadAddress } from "../../bus/address.ts";
import { Bus } from "../../bus/bus.ts";
import { systemEnv } from "../../bus/env.ts";
import { portPair, portTransport } from "../../bus/ports.ts";
import { type NodeId, nodeId } from "../../bus/protocol/node-id.ts";
import { loadSettings } from "../../governance/settings/settings.ts";
import { type Actors, startActors } from "../../host/actor-node.ts";
import { readEvents } from "../../storage/tables/events.ts";
import { threadBySuffix } from "../../storage/tables/threads.ts";
import { TestTurn, tenantId } from "../support/actor-process.ts";
import { startMock } from "../support/chat.ts";
import { outcomeOf } from "../support/outcome.ts";
import { testStore } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const env = systemEnv();
const quiet = { SVC_LOG_LEVEL: "silent", SVC_OBJECT_STORE: "memory", SVC_AUDIT_FLUSH_SECONDS: "3600" };

/** Two connected hosts on one store, with the actors that a server starts. Both believe that the first one holds all actors. */
async function twoHosts(t: { after(work: () => unknown): void }) {
  const atEnd = cleanup(t);
  const { mock, env: modelled } = await startMock(atEnd, { models: ["scripted"], env: quiet });
  mock.answer("scripted", { text: "Once." });
  const settings = loadSettings({ ...modelled, SVC_DEFAULT_MODEL_ID: "scripted" });
  const { store, another, config } = await testStore("sqlite", atEnd);
  const [leaving, staying] = ["leaving", "staying"].map((host) => nodeId(host, 0)) as [NodeId, NodeId];
  const start = (bootId: string, node: NodeId): { bus: Bus; actors: Actors } => {
    const bus: Bus = new Bus({
      ...{ env, node, incarnation: 0, actorNodes: [leaving] },
      deliver: (delivery) => actors.deliver(delivery),
    });
    const own = { node: 0, actorNodes: [leaving], settings, store: config, bootId, incarnation: 0, version: "1" };
    const actors = startActors(own, env, another(), bus, []);
    atEnd.after(() => actors.close());
    return { bus, actors };
  };
  const [first, second] = [start("leaving", leaving), start("staying", staying)];
  const [left, right] = portPair();
  atEnd.after(() => left.close());
  first.bus.connect(staying, portTransport(left));
  second.bus.connect(leaving, portTransport(right));
  return { store, staying, first, second };
}

describe("a host that has drained", () => {
  test("refuses a turn of another host, which repeats it elsewhere without a duplicate", async (t) => {
    const { store, staying, first, second } = await twoHosts(t);
    const before = new TestTurn(second.bus, env, { manifest: "agent", thread_suffix: "talk" });
    await before.ended;
    const isDrained = await first.actors.drain(0);
    const again = { manifest: "agent", thread_suffix: "talk", run_id: env.id() };

    const refused = await outcomeOf(new TestTurn(second.bus, env, again).accepted);
    const own = await first.bus.ask(threadAddress(tenantId, "talk"), "abort", { reason: "client" });
    second.bus.placeOver([staying]);
    const repeated = new TestTurn(second.bus, env, again);
    const accepted = await outcomeOf(repeated.accepted);
    await repeated.ended;

    assert.deepEqual(
      { isDrained, refused, own, accepted },
      {
        isDrained: true,
        refused: { refused: "actor_lost" },
        own: { aborted: false },
        accepted: { answer: { kind: "started" } },
      },
    );
    const tenant = store.tenant(tenantId);
    const head = await threadBySuffix(tenant, "talk");
    assert.ok(head);
    const events = await readEvents(tenant, head.thread_key, 0, 100);
    assert.deepEqual(
      events.filter(({ kind }) => kind === "message").map(({ role }) => role),
      ["user", "assistant", "user", "assistant"],
    );
  });
});
