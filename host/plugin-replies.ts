import type { HttpContext } from "../http/context.ts";
import type { Reply } from "../http/exchange/reply.ts";
import type { EventStream } from "../http/exchange/sse.ts";
import type { Route } from "../http/route.ts";

// Replies of plugins are not type-checked. An engine throws when it writes an invalid reply, outside any request, which would
// end the process.

/**
 * Wraps a plugin's route and validates its replies before they are written. An invalid reply is a defect of the handler and
 * becomes a 500.
 */
export function withCheckedReplies(route: Route): Route {
  return {
    ...route,
    async handle(request, context) {
      const reply = await route.handle(request, context);
      const problem = replyProblem(reply);
      if (problem !== null) throw new Error(`the handler returned no valid reply: ${problem}`);
      return reply.kind === "stream" ? guarded(reply, `${route.method} ${route.path}`, context) : reply;
    },
  };
}

const headerName = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;
/** A line break would start another header. */
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Returns why the value is not a valid reply; null if it is. */
function replyProblem(value: unknown): string | null {
  if (typeof value !== "object" || value === null) return "it must be an object";
  const { kind, status, body, contentType, headers, open, pieces } = value as Partial<Record<string, unknown>>;
  if (typeof headers === "object" && headers !== null) {
    const odd = Object.entries(headers).find(([name, text]) => !headerName.test(name) || !isHeaderValue(text));
    if (odd !== undefined) return `the header ${JSON.stringify(odd[0])} has an invalid name or value`;
  } else if (headers !== undefined) return "headers must be an object";
  if (kind === "stream") return typeof open === "function" ? null : "open must be a function";
  if (kind === "text" || kind === "pieces") {
    if (!isHeaderValue(contentType)) return "contentType must be the text of a header";
  } else if (kind !== "json") return "kind must be json, text, stream or pieces";
  if (kind === "pieces") {
    const { next, return: end } = (pieces ?? {}) as Partial<Record<string, unknown>>;
    return typeof next === "function" && typeof end === "function" ? null : "pieces must have next and return";
  }
  if (!Number.isInteger(status) || (status as number) < 200 || (status as number) > 599)
    return "status must be a whole number from 200 to 599";
  if (typeof body === "string" || (kind === "text" && body instanceof Uint8Array)) return null;
  return kind === "json" ? "body must be a text" : "body must be a text or bytes";
}

function isHeaderValue(value: unknown): boolean {
  return typeof value === "string" && headerValue.test(value);
}

/** The head is sent when the stream opens, so a later failure can only end the stream. */
function guarded(reply: Extract<Reply, { kind: "stream" }>, route: string, { log }: HttpContext): Reply {
  return {
    ...reply,
    open(stream: EventStream) {
      try {
        reply.open(stream);
      } catch (err) {
        log.error({ err, route }, "the stream of a plugin's route could not be opened");
        stream.end("");
      }
    },
  };
}
