import type { VectorModel } from "../../storage/tables/vectors.ts";

/** The embedder of the deployment, which SVC_MEMORY_EMBEDDER selects. */
export interface DeploymentEmbedder extends VectorModel {
  /** The route, or `sentence_transformers`. */
  readonly name: string;
  /** The host that receives the texts; null if they stay in this process or the provider of a plugin embeds them. */
  readonly host: string | null;
  /** True if it makes vectors of images that are compared with those of texts. */
  readonly seesImages: boolean;
}

/** Max characters of a text that are embedded; models ignore or refuse more. */
export const embeddedCharsMax = 8_000;

/** Returns the vectors of an embedder's answer with unit length; null for a vector without a direction. */
export function unitVectors(
  { vectors, dimensions }: { readonly vectors: string; readonly dimensions: number },
  count: number,
): (Float32Array | null)[] {
  const bytes = Buffer.from(vectors, "base64");
  return Array.from({ length: count }, (_, at) => {
    const vector = Float32Array.from({ length: dimensions }, (_, i) => bytes.readFloatLE((at * dimensions + i) * 4));
    const length = Math.hypot(...vector);
    return Number.isFinite(length) && length > 0 ? vector.map((value) => value / length) : null;
  });
}
