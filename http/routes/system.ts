import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { renderMetrics } from "../../governance/metrics.ts";
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
  checks: Type.Object({ database: Check, redis: Check, object_store: Check, jwks: Type.Optional(Check) }),
});

const ready = route({
  method: "GET",
  path: "/ready",
  summary: "Checks the dependencies of the service, for at most two seconds.",
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
        },
      },
    },
  ],
  async handle(_request, { probes, settings, draining }) {
    const [database, redis, object_store] = await Promise.all([
      probes.database.ask(),
      // Without Redis there is no check; readiness reports it as not configured.
      probes.redis?.ask() ?? { ok: true, duration_ms: 0, configured: false },
      probes.object_store.ask(),
    ]);
    // Keys come from the settings, which were checked at the start, so there is only presence to report.
    const jwks = settings.authMode === "jwt" && { jwks: { ok: settings.jwksPublic !== null, duration_ms: 0 } };
    const checks = { database, redis, object_store, ...jwks };
    const isReady = Object.values(checks).every(({ ok }) => ok) && !draining();
    const status = isReady ? "ready" : draining() ? "draining" : "not_ready";
    return json({ status, checks }, isReady ? 200 : 503);
  },
});

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
