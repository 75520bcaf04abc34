import type { Env } from "../../bus/env.ts";
import { TextVectors } from "../../governance/vectors/text-vectors.ts";
import type { Store } from "../../storage/store/store.ts";

/** The vectors of a deployment without an embedder. */
export function noVectors(env: Env, store: Store): TextVectors {
  const unused = (): never => {
    throw new Error("there is no embedder to ask");
  };
  return new TextVectors(null, {
    ...{ env, store, corpora: [] },
    bus: { ask: unused, tell: unused, openChannel: unused, closeChannel: unused },
  });
}
