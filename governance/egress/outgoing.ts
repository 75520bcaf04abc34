import { lookup } from "node:dns";
import type { Readable } from "node:stream";
import type { Agent, Dispatcher } from "undici";
import type { Env } from "../../bus/env.ts";
import { FairSemaphore } from "../../bus/queues/fair-semaphore.ts";
import { admitsHost } from "../../manifests/hosts.ts";
import type { Secrets } from "../secret-mask.ts";
import type { EgressCredential } from "../settings/egress-credentials.ts";
import type { Settings } from "../settings/settings.ts";
import { includesTenant } from "../settings/tenant-list.ts";
import type { EgressPolicy } from "./address.ts";
import { Connector, type Resolver } from "./connector.ts";
import { type CollectedBody, collect, decoded, isEventStream } from "./content-coding.ts";
import { coversUrl } from "./credentials.ts";
import { EgressBlocked, EgressError } from "./failure.ts";
import { policyJudge, targetJudge } from "./judge.ts";
import { judgedConnect } from "./judged-connect.ts";
import { egressRouteOf } from "./route.ts";
import { readTarget } from "./target.ts";

/** Concurrent requests of a tenant and of the process (decision 166). */
const ofTenantMax = 32;
const ofProcessMax = 256;
/** Requests of a tenant that wait for a permit. */
const waitingMax = 1_000;
const redirectsMax = 5;
/** Silence after which a connection is closed: before the head, and between two parts of the body. */
const silenceMs = 300_000;
const idleMs = 10_000;

/** The tenant of requests, and the destinations that they may reach. */
export interface OutgoingRules {
  readonly tenantId: string;
  /** `public` for URLs of tenants, models and documents, `operator` for those of the settings. */
  readonly policy: EgressPolicy;
  /** Each list must admit the host of each hop; empty for no limit. */
  readonly allowHosts: readonly (readonly string[])[];
  /** Ids of SVC_EGRESS_CREDENTIALS that go with requests to their addresses. */
  readonly credentials: readonly string[];
  /** Called for each refused destination and each use of a credential, for the audit. */
  readonly onEvent: (event: EgressEvent) => void;
}

/** What the audit records about a request. */
export interface EgressEvent {
  readonly status: "blocked" | "credential";
  readonly host: string;
  readonly port: number;
  /** Why a destination was refused: a list of hosts, the address, the rule of redirects, or the form of the URL. */
  readonly reason?: "host" | "address" | "redirect" | "url";
  /** Id of the credential that was sent. */
  readonly credential?: string;
}

/** A request for any method and body. */
export interface OutgoingRequest {
  readonly url: string;
  /** GET if absent. */
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | null;
  readonly signal?: AbortSignal | undefined;
  /** Max milliseconds until the answer has been read, with the wait for a permit; absent for none. */
  readonly timeoutMs?: number;
  /** A redirect to another URL is refused; absent for no limit. */
  readonly stays?: (url: URL) => boolean;
  /** True if a stream of events may stay open for hours, without a permit. */
  readonly streams?: boolean;
  /** False to return redirects; absent to follow them. */
  readonly follows?: boolean;
}

/** An answer whose body has not been read. */
export interface OutgoingAnswer {
  readonly status: number;
  /** In lower case; repeated headers are joined by commas. */
  readonly headers: Readonly<Record<string, string>>;
  /** The URL that answered, after redirects. */
  readonly url: string;
  /** Without content coding. It must be read or destroyed. */
  readonly body: Readable;
  /** Secrets that the request carried: an answer may repeat them. */
  readonly secrets: readonly string[];
}

/** An answer in memory. */
export interface WholeAnswer extends Omit<OutgoingAnswer, "body">, CollectedBody {}

/** The parts of a deployment that requests need. */
export interface OutgoingDeps {
  readonly settings: Pick<
    Settings,
    "egressCredentials" | "egressPrivate" | "egressProxy" | "egressCaFile" | "testResolve"
  >;
  readonly secrets: Pick<Secrets, "resolve">;
  readonly env: Pick<Env, "timer" | "id">;
  readonly resolve?: Resolver;
  /** Number of threads that share the limits of the process. */
  readonly threads?: number;
}

/**
 * Sends HTTP requests for tools, protocols and SDKs. Each hop of a redirect passes the address judge, the allowed hosts and the choice
 * of credentials again. Model streams use `Egress`; both open sockets through `Connector`. undici is loaded with the first request.
 */
export class Outgoing {
  readonly #deps: OutgoingDeps;
  readonly #permits: FairSemaphore;
  /** By policy, or by tenant for those that SVC_EGRESS_PRIVATE names: other tenants must not use their connections. */
  readonly #agents = new Map<string, Agent>();

  constructor(deps: OutgoingDeps) {
    this.#deps = deps;
    const threads = deps.threads ?? 1;
    this.#permits = new FairSemaphore(share(ofProcessMax, threads), share(ofTenantMax, threads));
  }

  /**
   * Sends a request and follows its redirects. Throws EgressBlocked if a hop may not be reached, another error if there is no
   * answer.
   */
  async send(rules: OutgoingRules, request: OutgoingRequest): Promise<OutgoingAnswer> {
    const controller = new AbortController();
    const abort = () => controller.abort(request.signal?.reason);
    if (request.signal?.aborted) abort();
    request.signal?.addEventListener("abort", abort);
    const timer = this.#deps.env.timer(request.timeoutMs ?? Number.MAX_SAFE_INTEGER, () =>
      controller.abort(new EgressError("silent_body", "no answer in time")),
    );
    let release = (): void => {};
    const done = () => {
      timer.cancel();
      request.signal?.removeEventListener("abort", abort);
      release();
    };
    try {
      release = await this.#permit(rules.tenantId, controller.signal);
      const answer = await this.#follow(rules, request, controller.signal);
      // An event stream may stay open for hours.
      if (request.streams && isEventStream(answer.headers)) release();
      answer.body.once("close", done);
      return answer;
    } catch (error) {
      done();
      throw controller.signal.aborted ? (controller.signal.reason ?? error) : error;
    }
  }

  /** Sends a request and reads at most `bytesMax` bytes of the decoded body. */
  async whole(rules: OutgoingRules, request: OutgoingRequest, bytesMax: number): Promise<WholeAnswer> {
    const { body, ...head } = await this.send(rules, request);
    return { ...head, ...(await collect(body, bytesMax)) };
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    const agents = [...this.#agents.values()];
    this.#agents.clear();
    await Promise.all(agents.map((agent) => agent.destroy()));
  }

  async #follow(rules: OutgoingRules, request: OutgoingRequest, signal: AbortSignal): Promise<OutgoingAnswer> {
    let { method = "GET", body = null } = request;
    let headers: Record<string, string> = lowerCase(request.headers ?? {});
    const secrets: string[] = [];
    let url = this.#admitted(rules, request.url, null);
    for (let hop = 0; ; hop++) {
      const own = await this.#credentialsFor(rules, url);
      secrets.push(...own.secrets);
      const all = { "accept-encoding": "identity", ...headers, ...own.headers };
      const answer = await this.#dispatch(rules, url, { method, headers: all, body, signal });
      const location = answer.headers.location;
      if (request.follows === false || location === undefined || ![301, 302, 303, 307, 308].includes(answer.status))
        return { ...answer, secrets };
      answer.body.destroy();
      if (hop === redirectsMax) throw new EgressError("malformed", `more than ${redirectsMax} redirects`);
      const next = this.#admitted(rules, location, url);
      if (request.stays?.(next) === false) this.#block(rules, next, "redirect");
      if (next.origin !== url.origin) headers = withoutSecrets(headers);
      const keeps = answer.status === 307 || answer.status === 308 || method === "GET" || method === "HEAD";
      if (!keeps) {
        method = "GET";
        body = null;
        headers = withoutBody(headers);
      }
      url = next;
    }
  }

  /** Parses the URL of a hop. Throws EgressBlocked if the rules do not admit it. */
  #admitted(rules: OutgoingRules, text: string, from: URL | null): URL {
    const url = URL.parse(text, from?.href);
    if (url === null) throw new EgressBlocked();
    try {
      readTarget(url.href);
    } catch {
      this.#block(rules, url, "url");
    }
    if (from?.protocol === "https:" && url.protocol === "http:") this.#block(rules, url, "redirect");
    if (!rules.allowHosts.every((list) => admitsHost(list, url.hostname))) this.#block(rules, url, "host");
    url.hash = "";
    return url;
  }

  #block(rules: OutgoingRules, url: URL, reason: EgressEvent["reason"] & string): never {
    rules.onEvent({ status: "blocked", ...placeOf(url), reason });
    throw new EgressBlocked();
  }

  async #credentialsFor(rules: OutgoingRules, url: URL) {
    const headers: Record<string, string> = {};
    const secrets: string[] = [];
    for (const id of rules.credentials) {
      const credential = credentialOf(this.#deps.settings.egressCredentials, id, rules.tenantId);
      if (credential === null || !coversUrl(credential, url)) continue;
      const secret = await this.#deps.secrets.resolve(credential.secret);
      const value = credential.scheme === "" ? secret : `${credential.scheme} ${secret}`;
      headers[credential.header.toLowerCase()] = value;
      secrets.push(secret);
      rules.onEvent({ status: "credential", ...placeOf(url), credential: id });
    }
    return { headers, secrets };
  }

  async #dispatch(
    rules: OutgoingRules,
    url: URL,
    sent: { method: string; headers: Record<string, string>; body: string | Uint8Array | null; signal: AbortSignal },
  ): Promise<Omit<OutgoingAnswer, "secrets">> {
    const undici = await import("undici");
    const dispatcher = this.#agent(rules, undici.Agent);
    try {
      const options = { ...sent, method: sent.method as Dispatcher.HttpMethod, dispatcher };
      const { statusCode: status, headers: received, body } = await undici.request(url, options);
      // undici reports the end of an unread body as an error; a reader gets errors by its own listener.
      body.on("error", () => {});
      const headers = joined(received);
      try {
        // A reply without a body may name a coding.
        const isEmpty = sent.method === "HEAD" || status === 204 || status === 304;
        const coding = isEmpty ? "" : (headers["content-encoding"] ?? "");
        return { status, headers, url: url.href, body: decoded(body, coding) };
      } catch (error) {
        body.destroy();
        throw error;
      }
    } catch (error) {
      if (error instanceof EgressBlocked) this.#block(rules, url, "address");
      throw error;
    }
  }

  #agent({ policy, tenantId }: OutgoingRules, Class: typeof Agent): Agent {
    const { settings, resolve = lookup, env } = this.#deps;
    const isNamed = settings.egressPrivate.some(({ tenants }) => tenants !== "*" && tenants.includes(tenantId));
    const key = policy === "public" && isNamed ? `tenant:${tenantId}` : policy;
    let agent = this.#agents.get(key);
    if (agent !== undefined) return agent;
    const targets = settings.egressPrivate.filter(({ tenants }) => includesTenant(tenants, isNamed ? tenantId : ""));
    const judge = policy === "operator" ? policyJudge("operator") : targetJudge(targets);
    const connector = new Connector(judge, resolve, egressRouteOf(settings));
    agent = new Class({
      // The permits limit requests. A smaller pool would let one tenant hold back others at the same origin.
      connections: ofProcessMax,
      keepAliveTimeout: idleMs,
      headersTimeout: silenceMs,
      bodyTimeout: silenceMs,
      connect: judgedConnect(connector, env),
    });
    this.#agents.set(key, agent);
    return agent;
  }

  /** Waits for a permit of the tenant. Returns a function that releases it; only its first call has an effect. */
  #permit(tenantId: string, signal: AbortSignal): Promise<() => void> {
    let isHeld = true;
    const release = (): void => {
      if (isHeld) this.#permits.free(tenantId);
      isHeld = false;
    };
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#permits.take(tenantId)) return Promise.resolve(release);
    if (this.#permits.waiting(tenantId) >= waitingMax)
      return Promise.reject(new EgressError("no_connection", "too many requests wait for a connection"));
    return new Promise((resolve, reject) => {
      const who = this.#deps.env.id();
      const leave = (): void => {
        this.#permits.leave(tenantId, who);
        reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#permits.await(tenantId, who, () => {
        signal.removeEventListener("abort", leave);
        resolve(release);
      });
    });
  }
}

/** Returns the credential if this tenant may use it. A missing one and another tenant's are indistinguishable. */
export function credentialOf(
  credentials: Readonly<Record<string, EgressCredential>>,
  id: string,
  tenantId: string,
): EgressCredential | null {
  const credential = Object.hasOwn(credentials, id) ? (credentials[id] as EgressCredential) : null;
  return credential !== null && includesTenant(credential.tenants, tenantId) ? credential : null;
}

function share(limit: number, threads: number): number {
  return Math.max(1, Math.floor(limit / threads));
}

/** The host and port of a URL. */
export function placeOf({ hostname, port, protocol }: URL): { host: string; port: number } {
  return { host: hostname, port: Number(port || (protocol === "https:" ? 443 : 80)) };
}

function lowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Headers that another origin must not see. */
function withoutSecrets(headers: Record<string, string>): Record<string, string> {
  const { authorization: _a, cookie: _c, "idempotency-key": _i, "mcp-session-id": _s, ...rest } = headers;
  return rest;
}

function withoutBody(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith("content-")));
}

function joined(headers: Readonly<Record<string, string | string[] | undefined>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, Array.isArray(value) ? value.join(", ") : value]],
    ),
  );
}
