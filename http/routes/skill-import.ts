import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { hasScopes } from "../../governance/auth/scopes.ts";
import type { Imported } from "../../governance/skills/import/skill-imports.ts";
import { sourceText } from "../../governance/skills/import/source.ts";
import { lookAtAll } from "../../governance/skills/import/upstream-looks.ts";
import { upstreamState } from "../../governance/skills/import/upstream-state.ts";
import { versionDetail } from "../../governance/skills/versions.ts";
import { readCursor, writeCursor } from "../../storage/store/cursor.ts";
import { skillUpstreams } from "../../storage/tables/skill-upstreams.ts";
import type { Exchange } from "../engines/exchange.ts";
import { type Route, route } from "../route.ts";
import { SkillImported, SkillsBrowsed, SkillUpdated, SkillUpstream, SkillUpstreams } from "../schemas/skill-import.ts";
import {
  idOf,
  type LibraryPlace,
  masked,
  skillNameParam as name,
  placeOf,
  shadows,
  skillLibraryTag as tag,
} from "../skills/library-place.ts";

// The routes that import skills from the code host, and look at the origins of those that were imported.

const hostFails = [
  ...(["invalid_source", "source_not_allowed", "source_not_found", "ambiguous_ref", "commit_not_in_repo"] as const),
  ...(["source_too_large", "rate_limited", "upstream_rate_limited", "upstream_error", "egress_blocked"] as const),
  ...(["unresolved_secret", "deadline_exceeded", "storage_unavailable"] as const),
];
const saveFails = [
  ...(["too_recent", "origin_mismatch", "invalid_bundle", "version_cap_reached", "version_conflict"] as const),
  ...(["parent_changed", "storage_quota_exceeded", "object_store_unavailable", "conflict"] as const),
];
/** Max time to look at the origins of one page. */
const refreshMs = 30_000;

const ref = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 200,
    description: "A branch, a tag, or a commit of the default branch; absent for the default branch.",
    examples: ["main"],
  }),
);
const source = Type.String({
  minLength: 1,
  maxLength: 512,
  description: "github:owner/repo, with the path of a folder after another slash.",
  examples: ["github:acme/skills/skills/brewing-tea"],
});

/** Aborts when the client disconnects. */
function signalOf(exchange: Exchange): AbortSignal {
  const controller = new AbortController();
  exchange.onAborted(() => controller.abort());
  return controller.signal;
}

async function imported(place: LibraryPlace, { row, unchanged, dropped }: Imported) {
  return {
    ...versionDetail(row, await shadows(place, row.name)),
    ...{ published: row.status === "live", publish_blocked: null, unchanged, dropped_files: dropped },
  };
}

const browse = route({
  method: "GET",
  path: "/skill-library/-/browse",
  summary: "Skills of a repository at the code host.",
  tag,
  access: ["skills:read"],
  query: Type.Object({ source, ref }),
  reply: {
    description: "The skills of the usual folders, or of the folder that the source names.",
    schema: SkillsBrowsed,
  },
  fails: hostFails,
  async handle({ query, principal, exchange }, context) {
    const place = await placeOf({}, principal, context, "read");
    const asked = { source: query.source, ref: query.ref ?? null, signal: signalOf(exchange) };
    const { located, ...found } = await context.skillImports.browse(place.store, asked);
    const { commit, repository } = located;
    return masked(place, 200, {
      ...{ source: sourceText(located.source), ref: commit.ref, commit: commit.sha, license: repository.license },
      ...found,
    });
  },
});

const bring = route({
  method: "POST",
  path: "/skill-library/-/import",
  summary: "Imports a skill from the code host as a draft.",
  tag,
  access: ["skills:write"],
  body: Type.Object(
    {
      source,
      ref,
      publish: Type.Boolean({ default: false, description: "Must be false: an import is always a draft." }),
    },
    { additionalProperties: false },
  ),
  reply: { status: 201, description: "The draft, made of the commit that the ref names now.", schema: SkillImported },
  otherReplies: [{ description: "The newest version is the same, so that nothing was saved.", schema: SkillImported }],
  fails: [...hostFails, ...saveFails, "publish_not_allowed", "name_shadows_host_skill", "skill_exists", "skills_full"],
  async handle({ body, principal, exchange }, context) {
    if (body.publish) throw new SvcError("publish_not_allowed");
    const place = await placeOf({}, principal, context, "write");
    const asked = { source: body.source, ref: body.ref ?? null, signal: signalOf(exchange) };
    const done = await context.skillImports.import(place.store, place.by, asked);
    return masked(place, done.unchanged ? 200 : 201, await imported(place, done));
  },
});

const update = route({
  method: "POST",
  path: "/skill-library/{name}/-/update",
  summary: "Imports the present files of a skill's origin as a draft.",
  tag,
  access: ["skills:write"],
  tenancy: [{ of: "skill", body: () => ({}) }],
  params: Type.Object({ name }),
  body: Type.Object({ ref }, { additionalProperties: false }),
  reply: { status: 201, description: "The draft, and how it differs from the version before.", schema: SkillUpdated },
  otherReplies: [{ description: "The origin has nothing new, so that nothing was saved.", schema: SkillUpdated }],
  fails: [...hostFails, ...saveFails, "not_found", "not_imported", "version_corrupt"],
  async handle({ params, body, principal, exchange }, context) {
    const place = await placeOf({}, principal, context, "write");
    const { name: skill } = idOf(place, params);
    const asked = { ref: body.ref ?? null, signal: signalOf(exchange) };
    const done = await context.skillImports.update(place.store, place.by, skill, asked);
    return masked(place, done.unchanged ? 200 : 201, { ...(await imported(place, done)), diff: done.diff });
  },
});

const one = route({
  method: "GET",
  path: "/skill-library/{name}/-/upstream",
  summary: "The present state of the origin of an imported skill.",
  tag,
  access: ["skills:read"],
  tenancy: [{ of: "skill" }],
  params: Type.Object({ name }),
  query: Type.Object({ ref }),
  reply: {
    description: "With `ref`, which needs skills:write, what another branch or tag has.",
    schema: SkillUpstream,
  },
  fails: [...hostFails, "not_found", "not_imported", "origin_mismatch", "version_corrupt", "object_store_unavailable"],
  async handle({ params, query, principal, exchange }, context) {
    if (query.ref !== undefined && !hasScopes(principal, ["skills:write"]))
      throw new SvcError("missing_scopes", { detail: "missing scopes: skills:write" });
    const place = await placeOf({}, principal, context, "read");
    const { name: skill } = idOf(place, params);
    const asked = { ref: query.ref ?? null, signal: signalOf(exchange) };
    const found = await context.skillImports.upstream(place.store, skill, asked);
    const { current, live_version, located, seen, min_age_days, diff } = found;
    const { commit, repository, treeHash } = located;
    return masked(place, 200, {
      name: skill,
      current: {
        ...{ version: current.version, status: current.status, source: current.origin?.source ?? "" },
        ...{ ref: current.origin?.ref ?? "", commit: current.origin?.commit ?? null },
        ...{ tree_hash: current.origin?.tree_hash ?? null, live_version },
      },
      upstream: {
        ...{ source: sourceText(located.source), ref: commit.ref, commit: commit.sha, tree_hash: treeHash },
        ...{ license: repository.license, committed_at: commit.committedAt, ...seen },
      },
      update_available: treeHash !== current.origin?.tree_hash,
      ...{ min_age_days, diff },
    });
  },
});

const list = route({
  method: "GET",
  path: "/skill-library/-/upstream",
  summary: "Imported skills with the last known state of their origins, in the order of their names.",
  tag,
  access: ["skills:read"],
  query: Type.Object({
    refresh: Type.Boolean({ default: false, description: "Looks at the origins of the page now." }),
    limit: Type.Integer({ minimum: 1, maximum: 25, default: 25, description: "Items per page." }),
    cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
  }),
  reply: { description: "`stopped` says why some origins were not looked at.", schema: SkillUpstreams },
  fails: ["invalid_cursor", "storage_unavailable"],
  async handle({ query: { refresh, limit, cursor }, principal }, context) {
    const { env, store, settings, skillImports: imports } = context;
    const place = await placeOf({}, principal, context, "read");
    const [after] = cursor === undefined ? [""] : readCursor(cursor, ["string"]);
    const page = () => skillUpstreams(place.store, after, limit + 1);
    const known = await page();
    const deps = { env, store, settings, imports };
    const stopped = refresh ? await lookAtAll(deps, place.store, known.slice(0, limit), refreshMs) : null;
    const rows = refresh ? await page() : known;
    const min_age_days = await imports.minAgeDays(place.store);
    const items = await Promise.all(
      rows.slice(0, limit).map((row) => upstreamState(place.store, row, min_age_days, env.now())),
    );
    const next_cursor = rows.length > limit ? writeCursor([items.at(-1)?.name ?? ""]) : null;
    return masked(place, 200, { items, next_cursor, refreshed: refresh, min_age_days, stopped });
  },
});

/** The routes of imported skills. */
export const skillImportRoutes: readonly Route[] = [browse, bring, update, list, one];
