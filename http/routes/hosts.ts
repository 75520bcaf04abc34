import { splitNodeId } from "../../bus/protocol/node-id.ts";
import { Type } from "../../bus/type.ts";
import { type HostRow, readHosts } from "../../storage/tables/hosts.ts";
import { json } from "../exchange/reply.ts";
import { type Route, route } from "../route.ts";
import { EpochMs } from "../schemas/common.ts";
import { systemTag } from "../tags.ts";

const Host = Type.Object({
  id: Type.String({ description: "New at every start.", examples: ["5b0cba0e3dd04a51"] }),
  name: Type.String({ description: "SVC_REPLICA_ID, or the machine's name.", examples: ["api-1"] }),
  mode: Type.String({
    description: "`cluster`, or `alone` for a host that shares its database with no other.",
    examples: ["alone"],
  }),
  self: Type.Boolean({ description: "True for the host that answers." }),
  lease_ms: Type.Integer({
    description: "Milliseconds until its lease ends, by the database's clock.",
    examples: [2100],
  }),
  draining: Type.Boolean(),
  duties: Type.Array(Type.String(), { examples: [["api", "worker", "scheduler"]] }),
  version: Type.String({ examples: ["0.2.0"] }),
  started_at: EpochMs,
  differs: Type.Array(Type.String(), {
    examples: [[]],
    description: "What it does not have in common with the host that answers: version, settings, manifests, plugins.",
  }),
});

const listHosts = route({
  method: "GET",
  path: "/hosts",
  summary: "Lists the processes that share the deployment.",
  tag: systemTag,
  access: ["runs:read"],
  reply: { description: "The hosts, by id.", schema: Type.Object({ items: Type.Array(Host) }) },
  fails: ["storage_unavailable"],
  async handle(_request, { bus, store }) {
    const hosts = await readHosts(store.system);
    const own = splitNodeId(bus.node).host;
    const self = hosts.find(({ id }) => id === own);
    return json({
      items: hosts.map((host) => ({
        id: host.id,
        name: host.card.name ?? "",
        mode: host.mode,
        self: host.id === own,
        lease_ms: Math.min(host.lease_ms, Number.MAX_SAFE_INTEGER),
        draining: host.leaving,
        duties: host.card.duties ?? [],
        version: host.card.version ?? "",
        started_at: host.card.started_at ?? 0,
        differs: self === undefined ? [] : differencesOf(self, host),
      })),
    });
  },
});

/** Returns what two hosts should have in common and do not. */
function differencesOf({ card: one }: HostRow, { card: other }: HostRow): string[] {
  const digests = (["settings", "manifests", "plugins"] as const).filter(
    (name) => one.digests?.[name] !== other.digests?.[name],
  );
  return [...(one.version === other.version ? [] : ["version"]), ...digests];
}

export const hostRoutes: readonly Route[] = [listHosts];
