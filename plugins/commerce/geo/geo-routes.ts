import type { PluginErrorCode } from "../../../bus/errors.ts";
import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import { json } from "../../../http/exchange/reply.ts";
import { type Route, route } from "../../../http/route.ts";
import { requestMs } from "../../../storage/store/store.ts";
import { brandById } from "../brands/brand-table.ts";
import {
  type GeoQueryRow,
  geoFigures,
  geoQueryByText,
  geoQueryCount,
  geoQueryPage,
  type ObservationRow,
  observationPage,
  putGeoQueryOp,
  queriesMax,
  removeGeoQuery,
} from "./geo-tables.ts";

// Questions about brands, and what models answered.

const tag = "commerce";
const noon = 1795348800000;
const dayMs = 86_400_000;
/** The time of a summary that names none. */
const summaryMs = 30 * dayMs;

export const brandNotFound: PluginErrorCode = {
  code: "brand_not_found",
  status: 404,
  help: "The tenant has no brand of this id.",
};
export const geoQueriesFull: PluginErrorCode = {
  code: "geo_queries_full",
  status: 409,
  help: `A brand has at most ${queriesMax} questions.`,
};

const Time = Type.Integer({ minimum: 0, description: "Epoch milliseconds.", examples: [noon] });
const BrandId = Type.String({ minLength: 1, maxLength: 64, examples: ["trail"] });
const Cursor = Type.Optional(Type.String({ maxLength: 2_000, description: "`next_cursor` of the page before." }));
const Limit = Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Rows per page." });
const NextCursor = Type.Union([Type.String(), Type.Null()], { examples: [null] });
const closed = { additionalProperties: false } as const;

const Query = Type.Object({
  query_id: Type.String({ examples: ["3f9c1e7a5b2d4806a1c3e5f70918273d"] }),
  brand_id: BrandId,
  text: Type.String({ examples: ["Which trail shoes are waterproof?"] }),
  models: Type.Array(Type.String({ examples: ["demo"] })),
  active: Type.Boolean(),
  created_at: Time,
  asked_at: Type.Union([Time, Type.Null()], { examples: [null] }),
});

const createQueries = route({
  method: "POST",
  path: "/geo/queries",
  summary: "Registers questions about a brand that models are asked each day.",
  tag,
  access: ["geo:write"],
  body: Type.Object(
    {
      brand_id: BrandId,
      queries: Type.Array(
        Type.Object(
          {
            text: Type.String({ minLength: 1, maxLength: 500, examples: ["Which trail shoes are waterproof?"] }),
            models: Type.Optional(
              Type.Array(Type.String({ minLength: 1, maxLength: 128, examples: ["demo"] }), {
                maxItems: 10,
                description: "Ids of models; default: the one of GEO_MONITOR.",
                examples: [[]],
              }),
            ),
            active: Type.Optional(Type.Boolean({ description: "Default true." })),
          },
          closed,
        ),
        { minItems: 1, maxItems: 100 },
      ),
    },
    closed,
  ),
  reply: {
    description: "The questions. A known text is the same question.",
    schema: Type.Object({ items: Type.Array(Query) }),
  },
  fails: [brandNotFound, geoQueriesFull, "conflict", "storage_unavailable"],
  async handle({ body, principal }, { store, env }) {
    const tenant = store.tenant(principal.tenant_id);
    const { brand_id, queries } = body;
    if ((await brandById(tenant, brand_id)) === undefined) throw new SvcError(brandNotFound);
    const rows: GeoQueryRow[] = [];
    let added = 0;
    for (const { text, models = [], active = true } of queries) {
      const known = await geoQueryByText(tenant, brand_id, text);
      if (known === undefined) added++;
      const fresh = { id: env.id(), ts: env.now(), brand_id, query_text: text, asked_at: 0 };
      rows.push({ ...(known ?? fresh), models: [...new Set(models)], active: active ? 1 : 0 });
    }
    if (added > 0 && (await geoQueryCount(tenant, brand_id)) + added > queriesMax) throw new SvcError(geoQueriesFull);
    await tenant.write(
      rows.map((row) => putGeoQueryOp(tenant, row)),
      requestMs,
    );
    const stored = [];
    for (const { text } of queries) {
      const row = await geoQueryByText(tenant, brand_id, text);
      if (row !== undefined) stored.push(queryView(row));
    }
    return json({ items: stored });
  },
});

const listQueries = route({
  method: "GET",
  path: "/geo/queries",
  summary: "Questions about brands, the newest first.",
  tag,
  access: ["geo:read"],
  query: Type.Object({ brand_id: Type.Optional(BrandId), limit: Limit, cursor: Cursor }, closed),
  reply: { description: "A page.", schema: Type.Object({ items: Type.Array(Query), next_cursor: NextCursor }) },
  fails: ["invalid_cursor", "storage_unavailable"],
  async handle({ query, principal }, { store }) {
    const { brand_id, limit, cursor = null } = query;
    const page = await geoQueryPage(store.tenant(principal.tenant_id), { brand_id }, cursor, limit);
    return json({ items: page.rows.map(queryView), next_cursor: page.next_cursor });
  },
});

const deleteQuery = route({
  method: "DELETE",
  path: "/geo/queries/{query_id}",
  summary: "Deletes a question; its answers stay.",
  tag,
  access: ["geo:write"],
  reply: { description: "It is gone.", schema: Type.Object({ ok: Type.Boolean() }) },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params, principal }, { store }) {
    if (!(await removeGeoQuery(store.tenant(principal.tenant_id), String(params.query_id))))
      throw new SvcError("not_found");
    return json({ ok: true });
  },
});

const Observation = Type.Object({
  observation_id: Type.String({ examples: ["3f9c1e7a5b2d4806a1c3e5f70918273d"] }),
  query_id: Type.String({ examples: ["3f9c1e7a5b2d4806a1c3e5f70918273d"] }),
  brand_id: BrandId,
  engine: Type.String({ description: "Id of the model.", examples: ["demo"] }),
  ts: Time,
  brand_mentioned: Type.Boolean(),
  rank: Type.Integer({
    description: "Position among the named brands, from 1; 0 if the brand is absent.",
    examples: [1],
  }),
  competitors: Type.Array(Type.String({ examples: ["Other Trails"] })),
  products: Type.Array(Type.String({ examples: ["Ridge 3"] })),
  answer_excerpt: Type.String({ examples: ["Trail makes the Ridge 3."] }),
});

const observations = route({
  method: "GET",
  path: "/geo/observations",
  summary: "What models answered, the newest first.",
  tag,
  access: ["geo:read"],
  query: Type.Object(
    {
      brand_id: Type.Optional(BrandId),
      query_id: Type.Optional(Type.String({ maxLength: 64, description: "Only to this question." })),
      since: Type.Optional(Time),
      until: Type.Optional(Time),
      limit: Limit,
      cursor: Cursor,
    },
    closed,
  ),
  reply: { description: "A page.", schema: Type.Object({ items: Type.Array(Observation), next_cursor: NextCursor }) },
  fails: ["invalid_cursor", "invalid_window", "storage_unavailable"],
  async handle({ query, principal }, { store }) {
    const { limit, cursor = null, ...filter } = query;
    const page = await observationPage(store.tenant(principal.tenant_id), filter, cursor, limit);
    return json({ items: page.rows.map(observationView), next_cursor: page.next_cursor });
  },
});

const summary = route({
  method: "GET",
  path: "/geo/summary",
  summary: "How often and where models name a brand.",
  tag,
  access: ["geo:read"],
  query: Type.Object({ brand_id: BrandId, since: Type.Optional(Time), until: Type.Optional(Time) }, closed),
  reply: {
    description: "Of the last 30 days unless the query says otherwise.",
    schema: Type.Object({
      since: Time,
      until: Time,
      queries: Type.Integer({ examples: [1] }),
      observations: Type.Integer({ examples: [1] }),
      mention_rate: Type.Number({ examples: [1] }),
      avg_rank: Type.Union([Type.Number(), Type.Null()], { examples: [1] }),
      competitors: Type.Array(
        Type.Object({ name: Type.String({ examples: ["Other Trails"] }), mentions: Type.Integer({ examples: [1] }) }),
      ),
      by_model: Type.Array(
        Type.Object({
          engine: Type.String({ examples: ["demo"] }),
          observations: Type.Integer({ examples: [1] }),
          mention_rate: Type.Number({ examples: [1] }),
          avg_rank: Type.Union([Type.Number(), Type.Null()], { examples: [1] }),
        }),
      ),
    }),
  },
  fails: [brandNotFound, "invalid_window", "storage_unavailable"],
  async handle({ query, principal }, { store, env }) {
    const tenant = store.tenant(principal.tenant_id);
    const until = query.until ?? env.now() + 1;
    const since = query.since ?? Math.max(0, until - summaryMs);
    if (until <= since) throw new SvcError("invalid_window");
    if ((await brandById(tenant, query.brand_id)) === undefined) throw new SvcError(brandNotFound);
    const { queries, engines, competitors } = await geoFigures(tenant, query.brand_id, since, until);
    const all = { observations: 0, mentions: 0, ranks: 0 };
    for (const { observations, mentions, ranks } of engines) {
      all.observations += observations;
      all.mentions += mentions;
      all.ranks += ranks;
    }
    const by_model = engines.map(({ engine, ...figures }) => ({ engine, ...ratesOf(figures) }));
    return json({ since, until, queries, ...ratesOf(all), competitors, by_model });
  },
});

function ratesOf({ observations, mentions, ranks }: { observations: number; mentions: number; ranks: number }) {
  return {
    observations,
    mention_rate: observations === 0 ? 0 : mentions / observations,
    avg_rank: mentions === 0 ? null : ranks / mentions,
  };
}

function queryView({ id, ts, brand_id, query_text, models, active, asked_at }: GeoQueryRow) {
  return {
    ...{ query_id: id, brand_id, text: query_text, models, active: active === 1, created_at: ts },
    asked_at: asked_at === 0 ? null : asked_at,
  };
}

function observationView({ id, brand_mentioned, ...row }: ObservationRow) {
  return { observation_id: id, ...row, brand_mentioned: brand_mentioned === 1 };
}

/** Routes of GEO monitoring. */
export const geoRoutes: readonly Route[] = [createQueries, listQueries, deleteQuery, observations, summary];
