// The client of svc: typed calls, and streams that survive a lost connection. It runs in browsers and in Node, and has no dependency.
import { refusalOf, SvcError } from "./error.js";
import { followStream } from "./follow.js";
import { streamTurn } from "./turn.js";

/** @import { Client, ClientOptions, Send } from "./types.ts" */

/** DELETE routes whose fields are secret, so they go into the body and not into an address. */
const deletesByBody = new Set(["DELETE /push/subscriptions"]);

/**
 * Creates a client of one server.
 * @param {ClientOptions} [options]
 * @returns {Client}
 */
export function createClient({ url = "", key, token, fetch = globalThis.fetch } = {}) {
  const base = url.replace(/\/+$/, "");
  /** @type {Record<string, string>} */
  const credentials =
    key !== undefined ? { "x-api-key": key } : token !== undefined ? { authorization: `Bearer ${token}` } : {};

  /** @type {Send} */
  const send = async (route, input, { signal, headers, query, body: raw }) => {
    const request =
      raw === undefined ? requestOf(route, input, query) : { ...requestOf(route, input, query), body: raw };
    const sent = {
      ...credentials,
      ...(request.body !== undefined && raw === undefined && { "content-type": "application/json" }),
      ...headers,
    };
    const { method, body = null } = request;
    const response = await fetch(base + request.path, { method, body, headers: sent, ...(signal && { signal }) }).catch(
      (/** @type {unknown} */ error) => {
        if (signal?.aborted) throw error;
        throw new SvcError({ code: "connection_lost", message: "The server cannot be reached.", cause: error });
      },
    );
    if (!response.ok) throw await refusalOf(response);
    return response;
  };

  return {
    async call(route, ...[input = {}, options = {}]) {
      const response = await send(route, input, options);
      const isJson = response.headers.get("content-type")?.startsWith("application/json");
      if (isJson) return response.json();
      const text = await response.text();
      return /** @type {any} */ (text === "" ? null : text);
    },
    open: (route, input = {}, options = {}) => send(route, input, options),
    stream: (turn, options = {}) => streamTurn(send, turn, options),
    follow: (route, input, options = {}) => /** @type {any} */ (followStream(send, route, input ?? {}, options)),
  };
}

/**
 * Puts each field of the input where its route takes it.
 * @param {string} route
 * @param {object} input
 * @param {Record<string, string>} [more]
 * @returns {{ method: string, path: string, body?: string }}
 */
function requestOf(route, input, more = {}) {
  const [method = "", template = ""] = route.split(" ");
  const rest = /** @type {Record<string, unknown>} */ ({ ...input });
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name) => {
    const value = rest[name];
    delete rest[name];
    if (value === undefined || value === "") throw new TypeError(`${route} needs ${name}`);
    // A route that ends in {path} takes the rest of the address.
    const parts = name === "path" ? String(value).split("/") : [String(value)];
    return parts.map(encodeURIComponent).join("/");
  });
  const hasBody = method !== "GET" && (method !== "DELETE" || deletesByBody.has(route));
  const fields = { ...more, ...(hasBody ? {} : rest) };
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(fields))
    if (value !== undefined && value !== null) query.append(name, String(value));
  const search = query.size > 0 ? `?${query}` : "";
  return { method, path: path + search, ...(hasBody && { body: JSON.stringify(rest) }) };
}
