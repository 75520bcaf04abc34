import { oneOf, seconds, text, url } from "./setting.ts";

/** Settings of web search (decision 108). */
export const searchSettings = {
  searchBackend: oneOf(
    "SEARCH_BACKEND",
    ["none", "searxng"],
    "none",
    "The service behind spec.search_tools. With none, manifests with search tools are refused.",
    { unbuilt: ["plugin"] },
  ),
  searchUrl: url("SEARCH_URL", "Base URL of the SearXNG server, https; its JSON format must be enabled."),
  searchApiKey: text(
    "SEARCH_API_KEY",
    "",
    "Sent to the search service as a bearer token; a literal or secret:NAME. Empty sends none.",
    { secret: true },
  ),
  searchTimeoutSeconds: seconds("SEARCH_TIMEOUT_SECONDS", 15, [0.001, 300], "Time for the answer to one search."),
};
