import { type EmbeddingInput, isImage } from "../../bus/protocol/embedder.ts";
import { estimatedTokens } from "../../governance/output-count.ts";
import type { EmbeddingRoute } from "../../manifests/registries.ts";

/** The request of one embedding call. */
export interface EmbeddingRequest {
  readonly route: EmbeddingRoute;
  readonly inputs: readonly EmbeddingInput[];
  /** Dimensions of each vector; null for the model's default. */
  readonly dimensions: number | null;
}

/** The result of one embedding call. */
export interface EmbeddingReply {
  /** 32-bit little-endian floats, one vector after the other in the order of the inputs. All are finite. */
  readonly vectors: Uint8Array;
  readonly dimensions: number;
  /** Null if the provider reported none. */
  readonly tokens: number | null;
  /** True if the provider sent base64 instead of decimal numbers, which are several times as long. */
  readonly isBinary: boolean;
}

/** An embedding call in progress. */
export interface EmbeddingCall {
  /** Rejects with ModelFailure, or with the SvcError unresolved_secret if the credential cannot be read. */
  readonly reply: Promise<EmbeddingReply>;
  /** Ends the call; `reply` rejects. */
  abort(): void;
}

/** Embeds texts. */
export interface Embedder {
  start(request: EmbeddingRequest): EmbeddingCall;
}

/** Max dimensions of a vector; real models have a few thousand. */
export const dimensionsMax = 16_384;
export const floatBytes = 4;

/** Max tokens of a small image. Providers count up to a thousand for each of its tiles. */
const imageTokens = 4_000;

/** Estimates the tokens of inputs if the provider does not report them. */
export function estimatedInputTokens(inputs: readonly EmbeddingInput[]): number {
  const tokens = (input: EmbeddingInput): number => {
    if (typeof input === "string") return estimatedTokens(input.length);
    return isImage(input) ? imageTokens : input.length;
  };
  return inputs.reduce((sum, input) => sum + tokens(input), 0);
}
