import type { WireError } from "../errors.ts";

/** Result of one page of inputs: the only text of its channel, as JSON. */
export type EmbeddedPage =
  | {
      /** 32-bit floats, little-endian, one vector after the other, in base64. */
      readonly vectors: string;
      readonly dimensions: number;
      /** Reported by the provider, or estimated. */
      readonly tokens: number;
      /** True if the provider sent bytes and not decimal numbers. */
      readonly is_binary: boolean;
    }
  | { readonly refused: WireError };
