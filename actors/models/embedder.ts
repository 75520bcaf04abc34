import type { EmbeddingInput } from "../../bus/protocol/embedder.ts";
import { estimatedTokens } from "../../governance/output-count.ts";
import type { EmbeddingRoute } from "../../manifests/registries.ts";

/** What is to be made vectors of, in one call. */
export interface EmbeddingRequest {
  readonly route: EmbeddingRoute;
  readonly inputs: readonly EmbeddingInput[];
  /** Of each vector; null leaves it to the model. */
  readonly dimensions: number | null;
}

/** The vectors of one call. */
export interface EmbeddingReply {
  /** 32-bit floats, little-endian, one vector after the other in the order of the inputs. Every one is a finite number. */
  readonly vectors: Uint8Array;
  readonly dimensions: number;
  /** Null when the provider reported none. */
  readonly tokens: number | null;
  /** Whether the provider has sent bytes, and not numbers in digits, which are several times as long. */
  readonly isBinary: boolean;
}

/** A call under way. */
export interface EmbeddingCall {
  /** Rejects with ModelFailure, or with the SvcError unresolved_secret when the credential cannot be looked up. */
  readonly reply: Promise<EmbeddingReply>;
  /** Ends the call; `reply` rejects. */
  abort(): void;
}

/** Something that makes vectors of texts. */
export interface Embedder {
  start(request: EmbeddingRequest): EmbeddingCall;
}

/** Dimensions of a vector; models have a few thousand. */
export const dimensionsMax = 16_384;
export const floatBytes = 4;

/** What inputs are estimated to be in tokens, where the provider does not say. */
export function estimatedInputTokens(inputs: readonly EmbeddingInput[]): number {
  return inputs.reduce(
    (sum, input) => sum + (typeof input === "string" ? estimatedTokens(input.length) : input.length),
    0,
  );
}
