import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { renderMetrics } from "../../governance/metrics.ts";
import type { TextVectors } from "../../governance/vectors/text-vectors.ts";
import { json, text } from "../exchange/reply.ts";
import { type Route, route } from "../route.ts";
import { systemTag } from "../tags.ts";

const Health = Type.Object({
  status: Type.String({ examples: ["ok"] }),
  env: Type.String({ examples: ["development"] }),
  version: Type.String({ examples: ["0.2.0"] }),
  multi_region: Type.Boolean({ examples: [false] }),
  federation: Type.Null(),
});

function health(path: string): Route {
  return route({
    method: "GET",
    path,
    summary: "Answers as long as the process works; checks nothing else.",
    tag: systemTag,
    access: "public",
    unlimited: true,
    anyHost: true,
    reply: { description: "The fixed answer.", schema: Health },
    handle: (_request, { settings, version }) =>
      json({ status: "ok", env: settings.environment, version, multi_region: false, federation: null }),
  });
}

const Check = Type.Object(
  { ok: Type.Boolean(), duration_ms: Type.Number({ examples: [1.8] }) },
  { additionalProperties: true },
);

const Readiness = Type.Object({
  status: Type.String({ examples: ["ready"] }),
  checks: Type.Object({
    database: Check,
    redis: Check,
    object_store: Check,
    vectors: Type.Object(
      {
        ok: Type.Boolean({ description: "True also if vectors are off: searches then compare words." }),
        duration_ms: Type.Number({ examples: [0.2] }),
        status: Type.String({ description: "on or off", examples: ["off"] }),
      },
      { additionalProperties: true, examples: [{ ok: true, duration_ms: 0.2, status: "off", detail: "no embedder" }] },
    ),
    jwks: Type.Optional(Check),
  }),
});

const ready = route({
  method: "GET",
  path: "/ready",
  summary: "Checks the dependencies of the service, for at most two seconds.",
  query: Type.Object({
    require: Type.Optional(
      Type.String({
        maxLength: 64,
        pattern: "^(database|redis|object_store|jwks)(,(database|redis|object_store|jwks))*$",
        description: "The checks that decide the status, instead of all.",
        examples: ["database,object_store"],
      }),
    ),
  }),
  tag: systemTag,
  access: "public",
  unlimited: true,
  anyHost: true,
  reply: { description: "Every check is ok.", schema: Readiness },
  otherReplies: [
    {
      status: 503,
      description: "A check is not ok: status `not_ready`. Or the server is `draining`.",
      schema: Readiness,
      example: {
        status: "not_ready",
        checks: {
          database: { ok: false, duration_ms: 3.1, detail: "schema_behind" },
          redis: { ok: true, duration_ms: 0, configured: false },
          object_store: { ok: true, duration_ms: 2.4 },
          vectors: { ok: true, duration_ms: 0, status: "off", detail: "no embedder" },
        },
      },
    },
  ],
  async handle({ query }, { probes, settings, draining, textVectors, env }) {
    const [database, redis, object_store, vectors] = await Promise.all([
      probes.database.ask(),
      // Without Redis there is no check; readiness reports it as not configured.
      probes.redis?.ask() ?? { ok: true, duration_ms: 0, configured: false },
      probes.object_store.ask(),
      vectorsCheck(textVectors, env),
    ]);
    // Keys of the settings were checked at the start, and keys of other issuers are read when a token needs them.
    const hasKeys = settings.jwksPublic !== null || settings.jwtVerifiers.length > 0;
    const jwks = settings.authMode === "jwt" && { jwks: { ok: hasKeys, duration_ms: 0 } };
    const checks = { database, redis, object_store, vectors, ...jwks };
    const required = query.require?.split(",");
    const isRequired = ([name]: readonly [string, unknown]): boolean => required?.includes(name) ?? true;
    const isReady =
      Object.entries(checks)
        .filter(isRequired)
        .every(([, { ok }]) => ok) && !draining();
    const status = isReady ? "ready" : draining() ? "draining" : "not_ready";
    return json({ status, checks }, isReady ? 200 : 503);
  },
});

/** Never red: without vectors searches compare words. */
async function vectorsCheck(vectors: TextVectors, env: Env) {
  const startedAt = env.monotonic();
  const { embedder } = vectors;
  const off = await vectors.whyOff().catch(() => "no database" as const);
  const duration_ms = Math.round((env.monotonic() - startedAt) * 10) / 10;
  return {
    ok: true,
    duration_ms,
    status: off === null ? "on" : "off",
    ...(off !== null && { detail: off }),
    ...(embedder !== null && { embedder: embedder.name, host: embedder.host }),
  };
}

const metricsExample = `# HELP svc_http_requests_total Requests by route and status.
# TYPE svc_http_requests_total counter
svc_http_requests_total{route="POST /chat",status="200"} 1
`;

const metrics = route({
  method: "GET",
  path: "/metrics",
  summary: "The metrics of the process.",
  tag: systemTag,
  access: "authenticated",
  anyHost: true,
  reply: { description: "Prometheus text.", contentType: "text/plain", example: metricsExample },
  otherReplies: [
    {
      description: "OpenMetrics, if the client accepts it.",
      contentType: "application/openmetrics-text",
      example: `${metricsExample.replace("_total Requests", " Requests").replace("_total counter", " counter")}# EOF\n`,
    },
  ],
  async handle({ exchange }, { allMetrics }) {
    const wantsOpenMetrics = (exchange.head.headers.accept ?? "").includes("application/openmetrics-text");
    const { contentType, body } = await renderMetrics(await allMetrics(), wantsOpenMetrics ? "openmetrics" : "text");
    return text(body, contentType);
  },
});

const runTask = route({
  method: "POST",
  path: "/tasks/{name}/run",
  summary: "Runs a periodic task of the process now.",
  tag: systemTag,
  access: ["tasks:run"],
  tenancy: [{ of: "job" }],
  params: Type.Object({ name: Type.String({ description: "Of the task.", examples: ["run_scheduled_jobs"] }) }),
  reply: {
    description: "The task has run. Work that it started may continue.",
    schema: Type.Object({ task: Type.String({ examples: ["run_scheduled_jobs"] }), status: Type.Literal("done") }),
  },
  fails: ["not_found", "duty_not_held", "shutting_down", "storage_unavailable"],
  async handle({ params: { name } }, context) {
    const answer = await context.runTask(name);
    if (answer === "unknown") throw new SvcError("not_found");
    if (answer === "not_held") throw new SvcError("duty_not_held");
    if (answer === "stopped") throw new SvcError("shutting_down");
    return json({ task: name, status: "done" });
  },
});

export const systemRoutes = [health("/health"), health("/live"), ready, metrics, runTask];
