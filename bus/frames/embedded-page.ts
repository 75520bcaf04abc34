import type { WireError } from "../errors.ts";

/** What came of a page of inputs: the one text of its channel, as JSON. */
export type EmbeddedPage =
  | {
      /** 32-bit floats, little-endian, one vector after the other, in base64. */
      readonly vectors: string;
      readonly dimensions: number;
      /** Reported by the provider, or estimated. */
      readonly tokens: number;
      /** Whether the provider has sent bytes, and not digits. */
      readonly is_binary: boolean;
    }
  | { readonly refused: WireError };
