import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { expose } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import { ActorHost } from "../../actors/runtime/host.ts";
import { Bus } from "../../bus/bus.ts";
import { systemEnv } from "../../bus/env.ts";
import { portTransport } from "../../bus/ports.ts";
import type { NodeId } from "../../bus/protocol/node-id.ts";
import { echoActor } from "./echo-actor.ts";
import { type Flood, type FloodResult, flood } from "./flood.ts";

/** A thread with echo actors, as its test sees it; comlink carries the calls. */
export interface EchoControl {
  connect(node: NodeId, port: MessagePort): void;
  lost(node: NodeId): void;
  /** Makes this thread ask others. */
  flood(options: Flood): Promise<FloodResult>;
  seen(): EchoSeen;
}

/** The records of a thread's actors. */
export interface EchoSeen {
  readonly handled: number;
  /** Messages that arrived after a later one, or twice. */
  readonly disordered: number;
  /** Non-empty batches, from each node. */
  readonly batches: Record<NodeId, number>;
}

export interface EchoWorkerData {
  readonly node: NodeId;
  readonly incarnation: number;
  readonly actorNodes: readonly NodeId[];
}

if (parentPort === null) throw new Error("this file is the entry of a worker thread");

const { node, incarnation, actorNodes } = workerData as EchoWorkerData;
const env = systemEnv();
const last = new Map<string, number>();
const batches: Record<NodeId, number> = {};
let handled = 0;
let disordered = 0;
const bus: Bus = new Bus({ env, node, incarnation, actorNodes, deliver: (delivery) => host.deliver(delivery) });
const host = new ActorHost({
  env,
  bus,
  deps: {
    onHandled(key: string, { sender, number }: { sender: string; number: number }) {
      handled++;
      const id = `${sender} to ${key}`;
      if (number <= (last.get(id) ?? -1)) disordered++;
      last.set(id, number);
    },
  },
  definitions: [echoActor(10_000)],
  onCrash(_kind, _key, error) {
    throw error;
  },
});

const control: EchoControl = {
  connect(other, port) {
    const transport = portTransport(port);
    bus.connect(other, {
      ...transport,
      onBatch: (take) =>
        transport.onBatch((batch) => {
          if (batch.items.length > 0) batches[other] = (batches[other] ?? 0) + 1;
          take(batch);
        }),
    });
  },
  lost: (other) => bus.lost(other),
  flood: (options) => flood(bus, options),
  seen: () => ({ handled, disordered, batches }),
};
expose(control, nodeEndpoint(parentPort));
