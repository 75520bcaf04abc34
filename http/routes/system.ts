import { Type } from "typebox";
import { SvcError } from "../../bus/errors.ts";
import { renderMetrics } from "../../governance/metrics.ts";
import { json, text } from "../reply.ts";
import { type Route, route } from "../route.ts";

const tag = "System";

const Health = Type.Object({
  status: Type.String(),
  env: Type.String(),
  version: Type.String(),
  multi_region: Type.Boolean(),
  federation: Type.Null(),
});

function health(path: string): Route {
  return route({
    method: "GET",
    path,
    summary: "Says that the process answers; looks at nothing.",
    tag,
    access: "public",
    unlimited: true,
    reply: { description: "Always the same.", schema: Health },
    handle: (_request, { settings, version }) =>
      json({ status: "ok", env: settings.environment, version, multi_region: false, federation: null }),
  });
}

const Check = Type.Object({ ok: Type.Boolean(), duration_ms: Type.Number() }, { additionalProperties: true });

const Readiness = Type.Object({
  status: Type.String(),
  checks: Type.Object({ database: Check, redis: Check, object_store: Check, jwks: Type.Optional(Check) }),
});

const ready = route({
  method: "GET",
  path: "/ready",
  summary: "Tries what the service needs.",
  tag,
  access: "public",
  unlimited: true,
  reply: { description: "Every check is ok.", schema: Readiness },
  otherReplies: [
    {
      status: 503,
      description: "A check is not ok: status `not_ready`. Or the server is `draining`.",
      schema: Readiness,
    },
  ],
  async handle(_request, { store, objects, env, settings, draining, schemaBehind }) {
    const timed = async (check: () => Promise<string | null>) => {
      const startedAt = env.monotonic();
      // The codes of refusals alone: anybody may read this.
      const detail = await check().catch((error: unknown) => SvcError.from(error).code);
      const duration_ms = Math.round((env.monotonic() - startedAt) * 10) / 10;
      return detail === null ? { ok: true, duration_ms } : { ok: false, detail, duration_ms };
    };
    const database = await timed(async () => {
      await store.check();
      return (await schemaBehind()) ? "schema_behind" : null;
    });
    const object_store = await timed(async () => {
      await objects.check();
      return null;
    });
    // Without Redis there is nothing to try (decision 43).
    const redis = { ok: true, duration_ms: 0, configured: false };
    // Keys come from the settings, which were checked at the start: they are there or not.
    const jwks = settings.authMode === "jwt" && { jwks: { ok: settings.jwksPublic !== null, duration_ms: 0 } };
    const checks = { database, redis, object_store, ...jwks };
    const isReady = Object.values(checks).every(({ ok }) => ok) && !draining();
    const status = isReady ? "ready" : draining() ? "draining" : "not_ready";
    return json({ status, checks }, isReady ? 200 : 503);
  },
});

const metrics = route({
  method: "GET",
  path: "/metrics",
  summary: "What the process has counted.",
  tag,
  access: "authenticated",
  reply: { description: "Prometheus text.", contentType: "text/plain" },
  otherReplies: [{ description: "OpenMetrics, when it is accepted.", contentType: "application/openmetrics-text" }],
  async handle({ exchange }, { allMetrics }) {
    const wantsOpenMetrics = (exchange.head.headers.accept ?? "").includes("application/openmetrics-text");
    const { contentType, body } = await renderMetrics(await allMetrics(), wantsOpenMetrics ? "openmetrics" : "text");
    return text(body, contentType);
  },
});

export const systemRoutes = [health("/health"), health("/live"), ready, metrics];
