import { digestJson } from "../canonical-json.ts";
import type { CompiledAgent } from "./compiled.ts";

/** Returns the digest that pins of threads compare: of the manifest, and of its sub-agents if it has any. */
export function pinDigest({ digest, subAgents }: Pick<CompiledAgent, "digest" | "subAgents">): string {
  return subAgents.length === 0 ? digest : digestJson([digest, ...subAgents.map((agent) => agent.digest)]);
}
