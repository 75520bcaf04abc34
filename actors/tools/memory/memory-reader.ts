import type { Principal } from "../../../bus/protocol/principal.ts";
import { isAnonymous } from "../../../governance/auth/anonymous.ts";
import { ownerOf } from "../../../governance/auth/memory-owner.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { MemoryReader } from "../../../storage/tables/memories.ts";

/** Returns the reader of an agent's turns for a caller; null for a caller without credentials. */
export function memoryReader(
  { principal, agent }: { readonly principal: Principal; readonly agent: CompiledAgent },
  host: string,
): MemoryReader | null {
  if (isAnonymous(principal)) return null;
  return { owner: ownerOf(principal), seesShared: agent.memory.scope === "manifest", host: hostOwner(host) };
}

/** Returns the name of a host as an owner of rows; see storage/tables/hosts.ts. */
export function hostOwner(host: string): string {
  return `${host}:`;
}
