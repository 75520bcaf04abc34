import type { ManifestLibrary } from "../library/manifest-library.ts";
import { defineActor } from "../runtime/define.ts";

/** What nodes need. */
export interface NodeDeps {
  readonly manifests: Pick<ManifestLibrary, "forget">;
}

/** The node itself: what concerns its whole thread and must be answered in order. */
export const nodeActor = defineActor<"node", null, NodeDeps>({
  kind: "node",
  mailboxLimit: 4096,
  interleaves: [],
  reserved: [],
  passivateAfterMs: 3_600_000,
  load: () => null,
  idle: () => true,
  crashed: () => {},
  on: {
    forgetManifest(_state, { tenant_id, name }, { deps }) {
      deps.manifests.forget(tenant_id, name);
      return {};
    },
  },
});
