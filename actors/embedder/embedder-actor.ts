import { SvcError } from "../../bus/errors.ts";
import { offered } from "../../bus/nearest.ts";
import { Cancellation } from "../runtime/cancellation.ts";
import { defineActor } from "../runtime/define.ts";
import { type EmbedderDeps, makePage } from "./page.ts";

/** Max concurrent pages of a tenant on one node. */
const pagesMax = 256;

/** Pages in progress, by id. */
export interface EmbedderState {
  readonly pages: Map<string, Cancellation>;
}

/** Calls embedding providers for one tenant, which is the actor's key. It stores nothing. */
export const embedderActor = defineActor<"embedder", EmbedderState, EmbedderDeps>({
  kind: "embedder",
  mailboxLimit: 256,
  interleaves: [],
  reserved: ["stop"],
  passivateAfterMs: 30_000,
  load: () => ({ pages: new Map() }),
  idle: ({ pages }) => pages.size === 0,
  crashed: ({ pages }) => {
    for (const page of pages.values()) page.cancel();
  },
  on: {
    embed({ pages }, asked, context) {
      if (pages.size >= pagesMax) throw new SvcError("mailbox_full");
      const { models } = context.deps;
      const route = models.embeddings.get(asked.model);
      if (route === undefined)
        throw new SvcError("unknown_embedding_model", {
          subject: asked.model,
          message: `There is no embedding model of this name.${offered(asked.model, [...models.embeddings.keys()])}`,
        });
      const embedder = models.embedder(route);
      const cancellation = new Cancellation();
      pages.set(asked.id, cancellation);
      void makePage({ tenantId: context.key, asked, route, embedder, cancellation }, context).finally(() =>
        pages.delete(asked.id),
      );
      return {};
    },
    stop({ pages }, { id }) {
      pages.get(id)?.cancel();
    },
  },
});
