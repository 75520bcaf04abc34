/** Field of a call's `_meta` over MCP: the number of agents that the request has passed through, as X-Svc-Hops over A2A. */
export const hopsMeta = "svc/hops";
