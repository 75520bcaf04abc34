import type { Logger } from "pino";
import { SvcError } from "../bus/errors.ts";
import type { Authenticator } from "../governance/auth/authenticator.ts";
import { attributeNames, spanNames } from "../governance/tracing/conventions.ts";
import { type Tracer, traceFields } from "../governance/tracing/tracer.ts";
import { Admission, type Admitted } from "./admission.ts";
import type { HttpContext } from "./context.ts";
import type { OnRequest } from "./engines/engine.ts";
import type { Exchange } from "./engines/exchange.ts";
import { hasSendableHead, type Pieces, type Reply, refusal } from "./exchange/reply.ts";
import { readJsonBody } from "./json-body.ts";
import { admitDriver, leaseProof } from "./lease.ts";
import { LoopTurns } from "./loop-turns.ts";
import { requestIdOf } from "./middleware/request-id.ts";
import { wantsPage } from "./pages/html.ts";
import { namingResource } from "./protected-resource.ts";
import type { Route, RouteRequest } from "./route.ts";
import { type Found, Router } from "./router.ts";
import { readQuery, validate } from "./validate.ts";

// Steps of each request, in the order of the specification: request id, security headers, body limit, rate limit and authentication.
// Scopes, the body and the route's handler follow. An error thrown by a step becomes the response.

/** Returns the handler of all requests for a table of routes. */
export function createApp(routes: readonly Route[], context: HttpContext, authenticator: Authenticator): OnRequest {
  const { env, settings, log, metrics, tracer } = context;
  const router = new Router(routes);
  const admission = new Admission(routes, router, context, authenticator);
  const longBodies = new LoopTurns(env);

  return (exchange) => {
    exchange.requestId = requestIdOf(exchange.head.headers["x-request-id"], env);
    const { path } = exchange.head;
    const found = router.find(exchange.head.method, path);
    const label = found.kind === "route" ? `${found.route.method} ${found.route.path}` : "unknown";
    const span =
      tracer === null || (found.kind === "route" && found.route.unlimited) ? null : traced(exchange, label, tracer);
    const answer = (made: Reply): void => {
      const reply = namingResource(made, exchange.head, settings);
      const isSafe = hasSendableHead(reply);
      if (!isSafe) refuse(new Error("a header value of the answer has a control character"), refusal);
      const status = !isSafe ? 500 : reply.kind === "stream" || reply.kind === "pieces" ? 200 : reply.status;
      if (span !== null) span.status = status;
      metrics.count("svc_http_requests_total", { route: label, status: String(status) });
      exchange.reply(reply);
    };
    const refuse = (error: unknown, inTheFormOf: Route["refusal"]): Reply => {
      const refused = SvcError.from(error);
      if (refused.code === "internal_error")
        log.error(
          {
            err: refused.cause ?? refused,
            request_id: exchange.requestId,
            route: label,
            ...traceFields(exchange.trace),
          },
          "request failed",
        );
      return inTheFormOf(refused, exchange.requestId);
    };
    // Until a request is admitted, refusals have svc's own form; after that, the form of the protocol that the route uses.
    void admission
      .admit(exchange, found)
      .then(
        (admitted) =>
          "kind" in admitted
            ? admitted
            : run(exchange, admitted).catch((error: unknown) => refuse(error, admitted.route.refusal)),
        (error: unknown) => challenge(found, exchange, error) ?? refuse(error, refusal),
      )
      .then(answer);
  };

  async function run(exchange: Exchange, { route, params, principal: known }: Admitted): Promise<Reply> {
    const { head } = exchange;
    const principal = route.admit === null ? known : route.admit(exchange, context);
    const rawBody = route.method === "GET" ? noBody : await exchange.body(route.bodyBytesMax);
    if (route.body !== null && rawBody.length > longBodyBytes) await longBodies.next();
    const request: RouteRequest<unknown, unknown, unknown> = {
      params: route.params === null ? noValues : validate(route.params, { ...params }, "path"),
      query: route.query === null ? noValues : readQuery(route.query, head.query),
      body:
        route.body === null
          ? undefined
          : validate(route.body, readJsonBody(rawBody, head.headers, route.bodyMembersMax), "body"),
      rawBody,
      principal,
      lease: route.drives === null ? null : leaseProof(head, settings),
      requestId: exchange.requestId,
      exchange,
    };
    if (route.drives === "thread" && request.lease !== null) await admitDriver(request, request.lease, context);
    const reply = await route.handle(request as RouteRequest<never, never, never>, context);
    return reply.kind === "pieces" ? begin(reply, exchange, log) : reply;
  }
}

/** Begins the span of a sampled request, which ends with its answer; null for any other request. */
function traced(exchange: Exchange, label: string, tracer: Tracer): { status: number } | null {
  const open = tracer.begin(exchange.head.headers.traceparent);
  if (open === null) return null;
  const { method } = exchange.head;
  const start = tracer.now();
  const span = { status: 0 };
  exchange.trace = open;
  exchange.onOver = () => {
    const { status } = span;
    const route = label.slice(label.indexOf(" ") + 1);
    const attributes = {
      [attributeNames.method]: method,
      [attributeNames.route]: route,
      [attributeNames.requestId]: exchange.requestId,
      ...(status > 0 && { [attributeNames.status]: status }),
    };
    // A client that disconnected got no status.
    const error = status === 0 ? "client_disconnected" : status >= 500 ? String(status) : null;
    tracer.end(open, { name: spanNames.request(method, route), kind: "server", start, attributes, error });
  };
  return span;
}

/** Makes the first piece of a long body, so that an early failure is answered as a normal refusal. */
async function begin(reply: Extract<Reply, { kind: "pieces" }>, exchange: Exchange, log: Logger): Promise<Reply> {
  const { pieces } = reply;
  // Stop making pieces when the client disconnects.
  exchange.onAborted(() => void pieces.return());
  const first = await pieces.next();
  return { ...reply, pieces: restOf(first, pieces, exchange, log) };
}

function restOf(first: Awaited<ReturnType<Pieces["next"]>>, pieces: Pieces, exchange: Exchange, log: Logger): Pieces {
  let isFirst = true;
  return {
    async next() {
      if (isFirst) {
        isFirst = false;
        return first;
      }
      try {
        return await pieces.next();
      } catch (error) {
        log.error(
          { err: error, request_id: exchange.requestId, path: exchange.head.path },
          "a reply was cut off while it was sent",
        );
        throw error;
      }
    },
    return: () => pieces.return(),
  };
}

/** Returns the page that asks a browser for credentials; null if the route has none or the error is not `unauthorized`. */
function challenge(found: Found, { head }: Exchange, error: unknown): Reply | null {
  if (found.kind !== "route" || found.route.challenge === null) return null;
  const isRefused = error instanceof SvcError && error.code === "unauthorized";
  return isRefused && wantsPage(head.headers.accept) ? found.route.challenge() : null;
}

const noValues = {};
const noBody = Buffer.alloc(0);
/** Bodies above this size take a millisecond or more to parse. */
const longBodyBytes = 64 * 1024;
