import { nodeAddress } from "../../bus/address.ts";
import { type NodeId, nodeId } from "../../bus/protocol/node-id.ts";
import { nodeOfOwner, type Owner } from "../../storage/tables/hosts.ts";
import type { ActorContext } from "./define.ts";

/** Max time of the other node to answer. */
const answerMs = 2_000;

/** Thrown by the load of an actor that works on another node: its messages are sent on to that node. */
export class LivesElsewhere extends Error {
  override readonly name = "LivesElsewhere";
  readonly node: NodeId;

  constructor(node: NodeId) {
    super(`lives on ${node}`);
    this.node = node;
  }
}

/**
 * Throws LivesElsewhere if the owner of a run is a node of another host that has the actor in memory. If it does not, the run was lost
 * there. Refuses like an ask if the node does not answer, because it may be at work until its lease has ended.
 */
export async function refuseIfElsewhere(
  kind: "thread" | "run",
  owner: Owner,
  host: string,
  { bus, key }: Pick<ActorContext<unknown>, "bus" | "key">,
): Promise<void> {
  const place = nodeOfOwner(owner);
  if (place === null || place.host === host) return;
  const node = nodeId(place.host, place.number);
  const { holds } = await bus.ask(nodeAddress(node), "holds", { kind, key }, { deadlineMs: answerMs });
  if (holds) throw new LivesElsewhere(node);
}
