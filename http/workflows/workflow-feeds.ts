import type { Bus } from "../../bus/bus.ts";
import { readVersions, type WorkflowVersion, workflowTopic } from "../../bus/protocol/workflow-versions.ts";

/** The new versions of the runs that clients of this HTTP thread watch. One subscription serves all watchers of a run. */
export class WorkflowFeeds {
  readonly #bus: Bus;
  readonly #watchers = new Map<string, Set<(version: WorkflowVersion) => void>>();

  constructor(bus: Bus) {
    this.#bus = bus;
  }

  /** Calls `onVersion` for each new version until the returned function is called. Versions of a lost node are lost. */
  watch(tenantId: string, runId: string, onVersion: (version: WorkflowVersion) => void): () => void {
    const topic = workflowTopic(tenantId, runId);
    let watchers = this.#watchers.get(topic);
    if (watchers === undefined) {
      const added = new Set<(version: WorkflowVersion) => void>();
      watchers = added;
      this.#watchers.set(topic, added);
      this.#bus.subscribeEverywhere(topic, (text) => {
        for (const version of readVersions(text)) for (const watcher of [...added]) watcher(version);
      });
    }
    const joined = watchers;
    joined.add(onVersion);
    return () => {
      joined.delete(onVersion);
      if (joined.size > 0 || this.#watchers.get(topic) !== joined) return;
      this.#watchers.delete(topic);
      this.#bus.unsubscribeEverywhere(topic);
    };
  }
}
