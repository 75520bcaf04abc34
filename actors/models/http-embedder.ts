import type { Env } from "../../bus/env.ts";
import type { Egress } from "../../governance/egress/egress.ts";
import type { Embedder, EmbeddingReply, EmbeddingRequest } from "./embedder.ts";
import { EmbeddingReader } from "./embedding-reader.ts";
import type { ModelFailure } from "./provider.ts";
import { type WireCall, type WireCaller, type WireConfig, wireCalls } from "./wire-provider.ts";

const protocol: WireCaller = {
  path: "/embeddings",
  headers: (apiKey) => (apiKey === null ? [] : ["authorization", `Bearer ${apiKey}`]),
};

/**
 * Returns an embedder for an OpenAI-compatible endpoint, through the given egress. It asks for base64, which is a quarter of the
 * size of decimal numbers and fast to decode. A provider that refuses base64 is asked for numbers from then on. Numbers are
 * accepted in either case.
 */
export function httpEmbedder(config: WireConfig, env: Env, egress: Egress): Embedder {
  const call = wireCalls(config, protocol, env, egress, "application/json");
  /** Wire models that refused the format field. */
  const withoutFormat = new Set<string>();
  return { start: (request) => call(begin(request, withoutFormat)) };
}

function begin(request: EmbeddingRequest, withoutFormat: Set<string>): WireCall<EmbeddingReply> {
  const { model } = request.route;
  let namesFormat = !withoutFormat.has(model);
  return {
    reader: new EmbeddingReader(request),
    body: () => requestBody(request, namesFormat),
    adapt({ status, message }: ModelFailure) {
      const isRefused = (status === 400 || status === 422) && /encoding_format|base64/i.test(message);
      if (!isRefused || !namesFormat) return false;
      namesFormat = false;
      withoutFormat.add(model);
      return true;
    },
    isContinued: () => false,
  };
}

function requestBody({ route, inputs, dimensions }: EmbeddingRequest, namesFormat: boolean): string {
  return JSON.stringify({
    model: route.model,
    input: inputs,
    ...(namesFormat && { encoding_format: "base64" }),
    ...(dimensions !== null && { dimensions }),
  });
}
