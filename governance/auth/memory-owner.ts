import { hash } from "node:crypto";
import { type Principal, principalId } from "../../bus/protocol/principal.ts";

/**
 * Returns the owner of memories that a caller's turns write: a digest of the caller's identity, or of the person on whose behalf
 * the caller acts.
 */
export function ownerOf({ on_behalf_of, ...self }: Principal): string {
  return hash("sha256", principalId(on_behalf_of ?? self)).slice(0, 32);
}
