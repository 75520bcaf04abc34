import type { ActorNodes } from "../../bus/placement.ts";
import { type NodeId, nodeId } from "../../bus/protocol/node-id.ts";
import type { Duty } from "../../governance/settings/duties.ts";
import type { HostRow } from "../../storage/tables/hosts.ts";

/** Returns the nodes over which actors are placed, in the same order on every host. */
export function actorNodesOf(hosts: readonly HostRow[]): ActorNodes {
  const nodesOf = ({ id, card }: HostRow): NodeId[] => card.nodes.map((number) => nodeId(id, number));
  const withDuty = (duty: Duty): NodeId[] =>
    hosts.filter(({ leaving, card }) => !leaving && card.duties.includes(duty)).flatMap(nodesOf);
  return { api: withDuty("api"), worker: withDuty("worker"), all: hosts.flatMap(nodesOf) };
}
