import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { isBinaryPath, mediaTypeOf } from "../../governance/skills/binary-files.ts";
import { upstreamState } from "../../governance/skills/import/upstream-state.ts";
import { skillSummary, versionDetail, versionView } from "../../governance/skills/versions.ts";
import { readCursor, writeCursor } from "../../storage/store/cursor.ts";
import { skillUpstream } from "../../storage/tables/skill-upstreams.ts";
import {
  type SkillRow,
  skillDrafts,
  skillPage,
  skillVersion,
  skillVersions,
  storedSkill,
} from "../../storage/tables/skills.ts";
import { type Route, route } from "../route.ts";
import {
  SkillDraft,
  SkillFileRecord,
  SkillPreview,
  SkillRecord,
  SkillSummary,
  SkillVersionDetail,
} from "../schemas/skill-library.ts";
import {
  declarationOf,
  idOf,
  type LibraryKind,
  masked,
  skillNameParam as name,
  type LibraryParams as Params,
  type LibraryPlace as Place,
  placeOf,
  rowOf,
  shadows,
  skillLibraryTag as tag,
  skillVersionParam as version,
} from "../skills/library-place.ts";

// The routes that read a skill library.

const readFails = ["not_found", "storage_unavailable"] as const;
const fileFails = [...readFails, "version_corrupt", "object_store_unavailable"] as const;
const pageQuery = {
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 50, description: "Items per page." }),
  cursor: Type.Optional(Type.String({ description: "`next_cursor` of the previous page." })),
};
const nullableText = Type.Union([Type.String(), Type.Null()], { examples: [null] });

/** Returns what is known of the origin of a skill; null if it is no import. */
async function upstreamOf({ store, library, lib, context }: Place, { name, is_deleted }: SkillRow) {
  const row = library === "" && is_deleted === 0 ? await skillUpstream(store, name) : undefined;
  if (row === undefined) return null;
  const { import_min_age_days } = await lib.policy(store);
  return upstreamState(store, row, import_min_age_days, context.env.now());
}

/** Returns the routes of one kind of library. */
function routesOf(kind: LibraryKind): readonly Route[] {
  const { base, whose, reads, params } = declarationOf(kind);
  const common = { tag };

  const list = route({
    ...common,
    method: "GET",
    path: base,
    summary: `Skills${whose}, in the order of their names.`,
    access: reads,
    params: params({}),
    query: Type.Object({
      status: Type.Optional(
        Type.Union([Type.Literal("live"), Type.Literal("draft"), Type.Literal("archived")], {
          description: "Has a live version, has drafts that wait, or neither.",
        }),
      ),
      source: Type.Optional(
        Type.Union(
          [Type.Literal("operator"), Type.Literal("agent"), Type.Literal("import"), Type.Literal("promoted")],
          { description: "Source of the latest version." },
        ),
      ),
      ...pageQuery,
    }),
    reply: {
      description: "A page may have fewer items than `limit`, because the filters apply to the page.",
      schema: Type.Object({ items: Type.Array(SkillSummary), next_cursor: nullableText }),
    },
    fails: ["invalid_cursor", ...readFails],
    async handle({ params: given, query, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "read");
      const { limit, cursor, status, source } = query;
      const [after] = cursor === undefined ? [""] : readCursor(cursor, ["string"]);
      const rows = await skillPage(place.store, place.library, after, limit + 1);
      const page = rows.slice(0, limit);
      const items = await Promise.all(
        page.map(async (row) => {
          const latest = await skillVersion(place.store, { ...row, version: row.latest_version });
          return skillSummary(row, latest, await shadows(place, row.name));
        }),
      );
      const kept = items.filter((item) => {
        const state = item.live_version !== null ? "live" : item.pending_drafts > 0 ? "draft" : "archived";
        const isStatus = status === undefined || state === status || (status === "draft" && item.pending_drafts > 0);
        return isStatus && (source === undefined || item.latest?.source === source);
      });
      const last = page.at(-1)?.name ?? "";
      return masked(place, 200, { items: kept, next_cursor: rows.length > limit ? writeCursor([last]) : null });
    },
  });

  const review = route({
    ...common,
    method: "GET",
    path: `${base}/-/review`,
    summary: `Drafts${whose} that await a decision, the oldest first.`,
    access: reads,
    params: params({}),
    query: Type.Object(pageQuery),
    reply: {
      description: "With the live version that each would replace.",
      schema: Type.Object({ items: Type.Array(SkillDraft), next_cursor: nullableText }),
    },
    fails: ["invalid_cursor", ...readFails],
    async handle({ params: given, query: { limit, cursor }, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "read");
      const after = cursor === undefined ? ([-1, "", ""] as const) : readCursor(cursor, ["number", "string", "string"]);
      const rows = await skillDrafts(place.store, place.library, after, limit + 1);
      const page = rows.slice(0, limit);
      const items = await Promise.all(
        page.map(async (row) => ({
          ...versionView(row),
          live_version: (await storedSkill(place.store, row.library, row.name))?.live_version ?? null,
        })),
      );
      const last = page.at(-1);
      const more = rows.length > limit && last !== undefined;
      const next_cursor = more ? writeCursor([last.created_at, last.name, last.version]) : null;
      return masked(place, 200, { items, next_cursor });
    },
  });

  const one = route({
    ...common,
    method: "GET",
    path: `${base}/{name}`,
    summary: `A skill${whose} with its versions.`,
    access: reads,
    tenancy: [{ of: "skill" }],
    params: params({ name }),
    reply: { description: "The highest version first.", schema: SkillRecord },
    fails: readFails,
    async handle({ params: given, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "read");
      const id = idOf(place, given as Params);
      const skill = await storedSkill(place.store, id.library, id.name);
      if (skill === undefined) throw new SvcError("not_found");
      const rows = (await skillVersions(place.store, id)).filter(({ is_stored }) => is_stored === 1);
      const { live_version, created_by, created_at, updated_at } = skill;
      return masked(place, 200, {
        ...{ name: skill.name, live_version, created_by, created_at, updated_at },
        shadows_operator_upload: await shadows(place, skill.name),
        versions: rows.map(versionView),
        upstream: await upstreamOf(place, skill),
      });
    },
  });

  const oneVersion = route({
    ...common,
    method: "GET",
    path: `${base}/{name}/versions/{version}`,
    summary: `A version of a skill${whose} with its review and files.`,
    access: reads,
    tenancy: [{ of: "skill" }],
    params: params({ name, version }),
    reply: { description: "The contents of the files are on their own routes.", schema: SkillVersionDetail },
    fails: readFails,
    async handle({ params: given, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "read");
      const row = await rowOf(place, given as Params);
      return masked(place, 200, versionDetail(row, await shadows(place, row.name)));
    },
  });

  const file = route({
    ...common,
    method: "GET",
    path: `${base}/{name}/versions/{version}/files/{path}`,
    summary: `A file of a version of a skill${whose}.`,
    access: reads,
    tenancy: [{ of: "skill" }],
    isRest: true,
    params: params({ name, version, path: Type.String({ description: "Its path.", examples: ["SKILL.md"] }) }),
    reply: { description: "`content` is a text, or base64 of a binary file.", schema: SkillFileRecord },
    fails: fileFails,
    async handle({ params: given, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "read");
      const { path } = given as unknown as { path: string };
      const row = await rowOf(place, given as Params);
      const bytes = await place.lib.file(place.store, row, path);
      const found = row.files.find((each) => each.path === path);
      if (bytes === null || found === undefined) throw new SvcError("not_found");
      const isBinary = isBinaryPath(path);
      return masked(place, 200, {
        ...{ path, encoding: isBinary ? "base64" : "utf-8", content_type: mediaTypeOf(path) },
        content: bytes.toString(isBinary ? "base64" : "utf8"),
        ...{ sha256: found.sha256, size: found.size },
      });
    },
  });

  const preview = route({
    ...common,
    method: "GET",
    path: `${base}/{name}/versions/{version}/preview`,
    summary: `What a publication of a version${whose} would find: review and scan run again.`,
    access: reads,
    tenancy: [{ of: "skill" }],
    params: params({ name, version }),
    reply: { description: "Changes nothing.", schema: SkillPreview },
    fails: [...fileFails, "deadline_exceeded"],
    async handle({ params: given, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "read");
      const row = await rowOf(place, given as Params);
      const { review: found, reasons } = await place.lib.preview(place.store, row);
      return masked(place, 200, {
        ...{ name: row.name, version: row.version, status: row.status, valid: found.faults.length === 0 },
        validation_issues: found.faults,
        ...{ quality_score: found.quality.score, review_checks: found.quality.checks },
        ...{ security_status: found.security.status, security_issues: found.security.issues },
        ...{ policy_passes: reasons.length === 0, reasons },
      });
    },
  });
  return [list, review, one, oneVersion, file, preview];
}

/** The routes that read the tenant's library and personal ones. */
export const skillLibraryRoutes: readonly Route[] = [...routesOf("org"), ...routesOf("personal")];
