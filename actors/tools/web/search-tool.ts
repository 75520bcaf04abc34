import type { WholeAnswer } from "../../../governance/egress/outgoing.ts";
import type { Settings } from "../../../governance/settings/settings.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { SearchTool } from "../../../manifests/sections/search-tools.ts";
import { errorOfStatus, requestFailure } from "../request-failure.ts";
import type { ToolSource } from "../source.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import { withoutSecrets } from "../without-secrets.ts";
import { readHits, showHits } from "./search-hits.ts";

// spec.search_tools: searches with the SearXNG server of the operator (decision 108).

type SearchSettings = Pick<Settings, "searchBackend" | "searchUrl" | "searchApiKey" | "searchTimeoutSeconds">;

/** Longer answers of the search service are refused. */
const bytesMax = 1024 * 1024;

/** Returns the source of tools in spec.search_tools. */
export function searchToolSource(settings: SearchSettings): ToolSource {
  return {
    name: "spec.search_tools",
    offers: [],
    resolve(name: string, { searchTools }: CompiledAgent) {
      const declared = searchTools.get(name);
      return declared && searchTool(declared, settings);
    },
  };
}

interface Arguments {
  readonly query: string;
}

function searchTool(declared: SearchTool, settings: SearchSettings): Tool {
  return {
    ...declared,
    transport: "remote",
    // Later than the timeout of the request, which has the better message.
    timeoutMs: settings.searchTimeoutSeconds * 1000 + 15_000,
    execute: ({ query }: Arguments, context) => search(query, declared.hitsMax, settings, context),
  };
}

async function search(
  query: string,
  hitsMax: number,
  { searchBackend, searchUrl, searchApiKey, searchTimeoutSeconds }: SearchSettings,
  { services: { egress, secrets } }: ToolContext,
): Promise<ToolResult> {
  if (searchBackend === "none") return toolError("transport_unavailable", "SVC_SEARCH_BACKEND is none");
  const url = new URL(`${searchUrl}/search`);
  url.search = new URLSearchParams({ q: query.toWellFormed(), format: "json" }).toString();
  const timeoutMs = searchTimeoutSeconds * 1000;
  let key: string | null;
  let answer: WholeAnswer;
  try {
    key = searchApiKey === "" ? null : await secrets.resolve(searchApiKey);
    answer = await egress.operator.whole(
      {
        url: url.href,
        headers: {
          "user-agent": "svc",
          accept: "application/json",
          ...(key !== null && { authorization: `Bearer ${key}` }),
        },
        timeoutMs,
        stays: (next) => next.origin === url.origin,
      },
      bytesMax,
    );
  } catch (error) {
    return requestFailure(error, timeoutMs);
  }
  const { status, isCut, bytes } = answer;
  if (status >= 400) return toolError(errorOfStatus(status), `the search service answered with status ${status}`);
  if (isCut) return toolError("provider_error", `the search service answered with more than ${bytesMax} bytes`);
  const hits = readHits(bytes, hitsMax);
  if (hits === null) return toolError("provider_error", "the answer of the search service is not a list of hits");
  return { text: withoutSecrets(showHits(hits), key === null ? [] : [key]), taint: ["search"] };
}
