import { Type } from "typebox";
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

export const ready = route({
  method: "GET",
  path: "/ready",
  summary: "Tries what the service needs.",
  tag,
  access: "public",
  unlimited: true,
  reply: {
    description: "503 with status `not_ready` when a check fails.",
    schema: Type.Object({
      status: Type.String(),
      checks: Type.Object({ database: Check, redis: Check, object_store: Check }),
    }),
  },
  async handle(_request, { store, objects, env, draining, schemaBehind }) {
    const timed = async (check: () => Promise<void>) => {
      const startedAt = env.monotonic();
      const ok = await check().then(
        () => ({ ok: true }),
        (error: Error) => ({ ok: false, detail: error.message }),
      );
      return { ...ok, duration_ms: Math.round((env.monotonic() - startedAt) * 10) / 10 };
    };
    const database = await timed(async () => {
      await store.check();
      if (await schemaBehind()) throw new Error("schema_behind");
    });
    const object_store = await timed(() => objects.check());
    // Without Redis there is nothing to try (decision 43).
    const redis = { ok: true, duration_ms: 0, configured: false };
    const isReady = database.ok && object_store.ok && !draining();
    const status = isReady ? "ready" : draining() ? "draining" : "not_ready";
    return json({ status, checks: { database, redis, object_store } }, isReady ? 200 : 503);
  },
});

export const metrics = route({
  method: "GET",
  path: "/metrics",
  summary: "What the process has counted.",
  tag,
  access: "authenticated",
  reply: { description: "Prometheus text, or OpenMetrics when it is accepted.", contentType: "text/plain" },
  async handle({ exchange }, { allMetrics }) {
    const wantsOpenMetrics = (exchange.head.headers.accept ?? "").includes("application/openmetrics-text");
    const { contentType, body } = await renderMetrics(await allMetrics(), wantsOpenMetrics ? "openmetrics" : "text");
    return text(body, contentType);
  },
});

export const systemRoutes = [health("/health"), health("/live"), ready, metrics];
