import { Type } from "../../../bus/type.ts";
import { digestJson } from "../../../manifests/canonical-json.ts";

// Calls that move money carry a digest of the facts of the server. A person approves the arguments with the digest, and the tool
// compares it again before it acts, so that the approved figures are the charged ones.

/** The argument with the digest. The server replaces what the model writes. */
export const FactsDigest = Type.Optional(
  Type.String({ maxLength: 64, description: "The server sets it: it stands for the figures that are approved." }),
);

/** Returns the arguments of a call with the digest of its facts. */
export function withFacts<Args extends object>(args: Args, facts: unknown): { readonly args: Args } {
  return { args: { ...args, facts_digest: digestJson(facts) } };
}

/** True if the facts are those of the digest in the arguments. */
export function areFactsOf({ facts_digest }: { readonly facts_digest?: string }, facts: unknown): boolean {
  return facts_digest === digestJson(facts);
}
