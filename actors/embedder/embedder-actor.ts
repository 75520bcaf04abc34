import { SvcError } from "../../bus/errors.ts";
import { offered } from "../../bus/nearest.ts";
import { Cancellation } from "../runtime/cancellation.ts";
import { defineActor } from "../runtime/define.ts";
import { indexTexts } from "./index-texts.ts";
import { type EmbedderDeps, makePage } from "./page.ts";

/** Max concurrent pages of a tenant on one node. */
const pagesMax = 256;

/** The work of an embedder. */
export interface EmbedderState {
  /** Pages in progress, by id. */
  readonly pages: Map<string, Cancellation>;
  /** The work on the queue of stored texts; null if there is none. */
  indexing: Cancellation | null;
}

/** Calls embedding providers for one tenant, which is the actor's key, and stores the vectors of its stored texts. */
export const embedderActor = defineActor<"embedder", EmbedderState, EmbedderDeps>({
  kind: "embedder",
  mailboxLimit: 256,
  interleaves: [],
  reserved: ["stop"],
  passivateAfterMs: 30_000,
  load: () => ({ pages: new Map(), indexing: null }),
  idle: ({ pages, indexing }) => pages.size === 0 && indexing === null,
  crashed: ({ pages, indexing }) => {
    for (const page of pages.values()) page.cancel();
    indexing?.cancel();
  },
  on: {
    embed({ pages }, asked, context) {
      if (pages.size >= pagesMax) throw new SvcError("mailbox_full");
      const { models } = context.deps;
      const route = asked.model === null ? models.memoryEmbedding : (models.embeddings.get(asked.model) ?? null);
      if (route === null) {
        const name = asked.model ?? "";
        throw new SvcError("unknown_embedding_model", {
          subject: name,
          message: `There is no embedding model of this name.${offered(name, [...models.embeddings.keys()])}`,
        });
      }
      const embedder = models.embedder(route);
      const cancellation = new Cancellation();
      pages.set(asked.id, cancellation);
      void makePage({ tenantId: context.key, asked, route, embedder, cancellation }, context).finally(() =>
        pages.delete(asked.id),
      );
      return {};
    },
    index(state, _, { key, deps }) {
      if (state.indexing !== null) return;
      const cancellation = new Cancellation();
      state.indexing = cancellation;
      void indexTexts(key, deps, cancellation).finally(() => {
        state.indexing = null;
      });
    },
    stop({ pages }, { id }) {
      pages.get(id)?.cancel();
    },
  },
});
