import type { Logger } from "pino";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import type { Store } from "../../storage/store/store.ts";
import { continueRebuild } from "../../storage/tables/vector-rebuild.ts";
import { nextQueuedTenant, otherStoredModel } from "../../storage/tables/vectors.ts";
import type { TextVectors } from "./text-vectors.ts";

/** Max tenants that one look wakes; the others follow with the next. */
const tenantsMax = 500;

/** Queues the next texts of a rebuild, and wakes the embedders of tenants with queued texts. Returns true if the rebuild has more texts to queue. */
async function workOnVectors(store: Store, vectors: TextVectors): Promise<boolean> {
  if (vectors.embedder === null || (await vectors.whyOff()) === "no vector extension") return false;
  const isMore = await continueRebuild(store, vectors.embedder, vectors.corpora);
  let after = "";
  for (let count = 0; count < tenantsMax; count++) {
    const tenant = await nextQueuedTenant(store.system, after);
    if (tenant === undefined) break;
    vectors.wake(tenant);
    after = tenant;
  }
  return isMore;
}

/** Logs a warning if vectors of another model are stored, because a setting has changed since. */
async function warnOfOtherVectors(store: Store, { embedder }: TextVectors, log: Pick<Logger, "warn">): Promise<void> {
  const stored = embedder && (await otherStoredModel(store.system, embedder));
  if (!embedder || !stored) return;
  log.warn(
    {
      ...{ model: embedder.model, dimensions: embedder.dimensions },
      ...{ stored_model: stored.model, stored_dimensions: stored.dimensions },
    },
    "stored vectors are of another model or length, so searches find their texts by words: run `svc embeddings rebuild`",
  );
}

/** Max delay to continue after a failure of the embedder, and between two pages of `svc embeddings rebuild`. */
const idleMs = 15_000;
const busyMs = 200;

/** Embeds queued texts. */
export const vectorsTask: RepeatedTask<{
  readonly store: Store;
  readonly textVectors: TextVectors;
  readonly log: Pick<Logger, "warn">;
}> = {
  name: "text_vectors",
  of: "scheduler",
  async run({ store, textVectors, log }, { isFirst }) {
    if (isFirst) await warnOfOtherVectors(store, textVectors, log);
    return (await workOnVectors(store, textVectors)) ? busyMs : idleMs;
  },
};
