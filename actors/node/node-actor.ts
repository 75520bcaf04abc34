import { tellNews } from "../../bus/protocol/news.ts";
import type { UnreadyRuns } from "../../bus/protocol/node.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";
import { defineActor } from "../runtime/define.ts";
import type { ToolSets } from "../tools/tool-sets.ts";

/** Dependencies of the node actor. */
export interface NodeDeps {
  readonly manifests: Pick<ManifestLibrary, "forget">;
  readonly toolSets: Pick<ToolSets, "forget">;
  unreadyRuns(): Promise<UnreadyRuns>;
  readFreezes(): Promise<void>;
  readAccess(): Promise<void>;
}

/** Handles messages to a node as a whole, in order. */
export const nodeActor = defineActor<"node", null, NodeDeps>({
  kind: "node",
  mailboxLimit: 4096,
  // These take a while, or change nothing of the actor.
  interleaves: ["unreadyRuns", "readFreezes", "readAccess", "holds", "borrow", "lend"],
  reserved: [],
  passivateAfterMs: 3_600_000,
  load: () => null,
  idle: () => true,
  crashed: () => {},
  on: {
    news(_state, { tenant_id, news }, { bus }) {
      tellNews(bus, tenant_id, () => news);
    },

    unreadyRuns: (_state, _body, { deps }) => deps.unreadyRuns(),

    async readFreezes(_state, _body, { deps }) {
      await deps.readFreezes();
      return {};
    },
    async readAccess(_state, _body, { deps }) {
      await deps.readAccess();
      return {};
    },
    holds: (_state, { kind, key }, { neighbours }) => ({ holds: neighbours.holds(kind, key) }),
    borrow: async (_state, loan, { neighbours }) => ({ borrowed: await neighbours.borrow(loan) }),
    settled: (_state, { thread }, { neighbours }) => neighbours.settled(thread),
    lend: (_state, { to, ...loan }, { neighbours }) => ({ subscribers: neighbours.lend(loan, to) }),
    returned: (_state, { thread }, { neighbours }) => neighbours.returned(thread),

    forgetManifest(_state, { tenant_id, name }, { deps }) {
      deps.manifests.forget(tenant_id, name);
      deps.toolSets.forget(tenant_id, name);
      return {};
    },
  },
});
