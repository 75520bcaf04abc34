import { jsonScript } from "./answer.ts";
import type { Script } from "./script.ts";

// The embeddings endpoint of the OpenAI protocol: its valid requests, its refusals, and its answers. Texts that share
// words have similar vectors.

/** Deviations of an answer from the requested form. */
interface EmbeddingStyle {
  /** True sends numbers as digits though bytes were requested. */
  readonly digits?: boolean;
  /** Null: the provider reports none. Default: a token for each word. */
  readonly usage?: { readonly prompt_tokens: number; readonly total_tokens: number } | null;
  /** The fixed dimensions of vectors. */
  readonly dimensions?: number;
}

const dimensionsByDefault = 64;
const inputsMax = 2_048;

/** The answer to a request by the protocol, or its refusal. */
export function embeddingScript(body: Readonly<Record<string, unknown>>, style: EmbeddingStyle = {}): Script {
  const { input, encoding_format: format = "float", dimensions = style.dimensions ?? dimensionsByDefault } = body;
  const inputs = inputsOf(input);
  if (inputs === null) return refusal("'$.input' is invalid. Please check the API reference.", "input");
  if (inputs.length > inputsMax) return refusal("'input' array is longer than 2048.", "input");
  if (format !== "float" && format !== "base64") return refusal("unknown encoding_format", "encoding_format");
  if (typeof dimensions !== "number" || !Number.isInteger(dimensions) || dimensions < 1)
    return refusal("invalid dimensions", "dimensions");
  const data = inputs.map((each, index) => {
    const vector = vectorOf(each, dimensions);
    const embedding = format === "base64" && !style.digits ? base64Of(vector) : [...vector];
    return { object: "embedding", index, embedding };
  });
  const tokens = inputs.reduce((sum, each) => sum + wordsOf(each).length, 0);
  const usage = style.usage === undefined ? { prompt_tokens: tokens, total_tokens: tokens } : style.usage;
  return jsonScript(200, { object: "list", data, model: body.model, ...(usage && { usage }) });
}

/** The vector of a text: of length 1, with its words for directions. */
export function vectorOf(input: string | readonly number[], dimensions: number = dimensionsByDefault): Float32Array {
  const vector = new Float32Array(dimensions);
  for (const word of wordsOf(input)) {
    const at = hash(word) % dimensions;
    vector[at] = (vector[at] ?? 0) + 1;
  }
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}

/** The bytes of 32-bit floats, little-endian. */
export function base64Of(vector: Float32Array): string {
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, at * 4);
  return bytes.toString("base64");
}

function inputsOf(input: unknown): (string | number[])[] | null {
  const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
  const isTokens = (value: unknown): value is number[] =>
    Array.isArray(value) && value.length > 0 && value.every((token) => Number.isInteger(token) && token >= 0);
  if (isText(input) || isTokens(input)) return [input];
  if (!Array.isArray(input) || input.length === 0) return null;
  return input.every(isText) || input.every(isTokens) ? input : null;
}

function wordsOf(input: string | readonly number[]): string[] {
  return typeof input === "string" ? (input.toLowerCase().match(/\w+/g) ?? []) : input.map(String);
}

function refusal(message: string, param: string): Script {
  return jsonScript(400, { error: { message, type: "invalid_request_error", param, code: null } });
}

function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value >>> 0;
}
