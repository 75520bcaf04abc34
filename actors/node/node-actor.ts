import type { UnreadyRuns } from "../../bus/protocol/node.ts";
import type { ManifestLibrary } from "../library/manifest-library.ts";
import { defineActor } from "../runtime/define.ts";
import type { ToolSets } from "../tools/tool-sets.ts";

/** Dependencies of the node actor. */
export interface NodeDeps {
  readonly manifests: Pick<ManifestLibrary, "forget">;
  readonly toolSets: Pick<ToolSets, "forget">;
  unreadyRuns(): Promise<UnreadyRuns>;
}

/** Handles messages to a node as a whole, in order. */
export const nodeActor = defineActor<"node", null, NodeDeps>({
  kind: "node",
  mailboxLimit: 4096,
  // This handler takes a while and changes nothing.
  interleaves: ["unreadyRuns"],
  reserved: [],
  passivateAfterMs: 3_600_000,
  load: () => null,
  idle: () => true,
  crashed: () => {},
  on: {
    unreadyRuns: (_state, _body, { deps }) => deps.unreadyRuns(),

    forgetManifest(_state, { tenant_id, name }, { deps }) {
      deps.manifests.forget(tenant_id, name);
      deps.toolSets.forget(tenant_id, name);
      return {};
    },
  },
});
