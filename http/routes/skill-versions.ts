import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import type { BundleFiles } from "../../governance/skills/bundle.ts";
import type { NewVersion } from "../../governance/skills/library.ts";
import { versionDetail, versionView } from "../../governance/skills/versions.ts";
import { json, type Reply } from "../exchange/reply.ts";
import { type Route, route } from "../route.ts";
import { SkillVersion, SkillWritten } from "../schemas/skill-library.ts";
import {
  declarationOf,
  idOf,
  type LibraryKind,
  masked,
  skillNameParam as name,
  type LibraryParams as Params,
  type LibraryPlace as Place,
  placeOf,
  shadows,
  skillLibraryTag as tag,
  skillVersionParam as version,
} from "../skills/library-place.ts";

// The routes that save versions of skills, and decide about them.

const bundleBodyBytesMax = 12 * 1024 * 1024;
const writeFails = [
  ...(["not_found", "invalid_bundle", "deadline_exceeded", "storage_quota_exceeded", "storage_unavailable"] as const),
  ...(["object_store_unavailable", "version_conflict", "version_cap_reached", "conflict"] as const),
];
const decideFails = [
  ...(["not_found", "version_conflict", "conflict", "version_corrupt", "deadline_exceeded"] as const),
  ...(["object_store_unavailable", "storage_unavailable"] as const),
];
const files = Type.Object(
  {},
  {
    additionalProperties: Type.String(),
    minProperties: 1,
    maxProperties: 200,
    description: "The whole bundle by path, SKILL.md among them; binary files under assets/ as base64.",
    examples: [{ "SKILL.md": "---\nname: brewing-tea\ndescription: How to brew green tea.\n---\n# Tea\n" }],
  },
);
const reason = Type.String({ maxLength: 2000, default: "", description: "Why, for its readers." });
const wantsPublish = Type.Boolean({ default: false, description: "Publishes it too, if the policy allows." });
const expected = Type.Object(
  {
    expected_live_version: Type.Optional(
      Type.Union([Type.String({ maxLength: 32 }), Type.Null()], {
        description: "Refuses with live_changed if another version is live.",
      }),
    ),
  },
  { additionalProperties: false },
);
/** Saves a version, and publishes it if the request asks for that. */
async function write(place: Place, given: NewVersion, publish: boolean): Promise<Reply> {
  const { store, by, lib, library } = place;
  let row = await lib.save(store, library, by, given);
  let publish_blocked: object | null = null;
  if (publish)
    try {
      row = await lib.publish(store, row, by, { isRollback: false });
    } catch (error) {
      const { code, details } = SvcError.from(error);
      if (code !== "publish_blocked") throw error;
      publish_blocked = { error: code, ...(details.detail as object) };
    }
  return masked(place, 201, {
    ...versionDetail(row, await shadows(place, row.name)),
    ...{ published: row.status === "live", publish_blocked },
  });
}
/** Returns the routes of one kind of library. */
function routesOf(kind: LibraryKind): readonly Route[] {
  const { base, whose, writes, params } = declarationOf(kind);
  const common = { tag };

  const create = route({
    ...common,
    method: "POST",
    path: base,
    summary: `Saves a new skill${whose} as a draft.`,
    access: writes,
    bodyBytesMax: bundleBodyBytesMax,
    params: params({}),
    body: Type.Object({ files, reason, publish: wantsPublish }, { additionalProperties: false }),
    reply: { status: 201, description: "Its first version, 0.1.0.", schema: SkillWritten },
    fails: [...writeFails, "skill_exists", "name_shadows_host_skill", "skills_full"],
    async handle({ params: given, body, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "write");
      const { reason: why, publish: isAsked } = body;
      const bundle = body.files as BundleFiles;
      const first = { name: null, parent: null, version: null, bump: "patch", source: "operator" } as const;
      return write(place, { files: bundle, reason: why, ...first }, isAsked);
    },
  });

  const save = route({
    ...common,
    method: "PUT",
    path: `${base}/{name}/versions`,
    summary: `Saves a new version of a skill${whose} as a draft.`,
    access: writes,
    tenancy: [{ of: "skill", body: () => ({ files: { "a.md": "text" }, parent_version: "0.1.0" }) }],
    bodyBytesMax: bundleBodyBytesMax,
    params: params({ name }),
    body: Type.Object(
      {
        files,
        parent_version: Type.String({ maxLength: 32, description: "The latest version.", examples: ["0.1.0"] }),
        version: Type.Optional(Type.String({ maxLength: 32, description: "Its number, above the latest." })),
        bump: Type.Union([Type.Literal("patch"), Type.Literal("minor"), Type.Literal("major")], {
          default: "patch",
          description: "Without `version`: the number that the next version raises.",
        }),
        reason,
        publish: wantsPublish,
      },
      { additionalProperties: false },
    ),
    reply: { status: 201, description: "The draft.", schema: SkillWritten },
    fails: [...writeFails, "parent_changed"],
    async handle({ params: given, body, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "write");
      const { parent_version: parent, version: number = null, bump, reason: why, publish: isAsked } = body;
      const id = idOf(place, given as Params);
      const bundle = body.files as BundleFiles;
      const next = { name: id.name, parent, version: number, bump, source: "operator" } as const;
      return write(place, { files: bundle, reason: why, ...next }, isAsked);
    },
  });

  const publication = (isRollback: boolean) =>
    route({
      ...common,
      method: "POST",
      path: `${base}/{name}/versions/{version}/${isRollback ? "rollback" : "publish"}`,
      summary: isRollback
        ? `Makes a version${whose} live again that was live before.`
        : `Makes a draft${whose} the live version.`,
      access: writes,
      tenancy: [{ of: "skill", body: () => ({}) }],
      params: params({ name, version }),
      body: expected,
      reply: {
        description: isRollback
          ? "The policy applies, without its evaluation."
          : "The version it replaces is archived.",
        schema: SkillVersion,
      },
      fails: [...decideFails, "publish_blocked", "live_changed"],
      async handle({ params: given, body, principal }, context) {
        const place = await placeOf(given as Params, principal, context, "write");
        const { expected_live_version: expectedLive } = body;
        const how = { isRollback, ...(expectedLive !== undefined && { expectedLive }) };
        const row = await place.lib.publish(place.store, idOf(place, given as Params), place.by, how);
        return masked(place, 200, versionView(row));
      },
    });

  const reject = route({
    ...common,
    method: "POST",
    path: `${base}/{name}/versions/{version}/reject`,
    summary: `Archives a draft${whose} with a note.`,
    access: writes,
    tenancy: [{ of: "skill", body: () => ({ note: "No." }) }],
    params: params({ name, version }),
    body: Type.Object(
      { note: Type.String({ minLength: 1, maxLength: 2000, description: "Why.", examples: ["Too long."] }) },
      { additionalProperties: false },
    ),
    reply: { description: "The version is archived.", schema: SkillVersion },
    fails: decideFails,
    async handle({ params: given, body, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "write");
      const row = await place.lib.reject(place.store, idOf(place, given as Params), place.by, body.note);
      return masked(place, 200, versionView(row));
    },
  });

  const adopt = route({
    ...common,
    method: "POST",
    path: `${base}/{name}/versions/{version}/adopt`,
    summary: `Saves an imported version${whose} as a draft of the caller, who vouches for it.`,
    access: writes,
    tenancy: [{ of: "skill", body: () => ({ reason: "Read." }) }],
    params: params({ name, version }),
    body: Type.Object(
      { reason: Type.String({ maxLength: 2000, description: "Why.", examples: ["Read and tested."] }) },
      { additionalProperties: false },
    ),
    reply: { status: 201, description: "The draft.", schema: SkillWritten },
    fails: [
      ...writeFails,
      "version_corrupt",
      "reason_required",
      "not_imported",
      "agent_draft",
      "parent_rejected",
      "parent_changed",
    ],
    async handle({ params: given, body, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "write");
      if (body.reason.trim() === "") throw new SvcError("reason_required");
      const row = await place.lib.adopt(place.store, idOf(place, given as Params), place.by, body.reason);
      const detail = versionDetail(row, await shadows(place, row.name));
      return masked(place, 201, { ...detail, published: false, publish_blocked: null });
    },
  });

  const remove = route({
    ...common,
    method: "DELETE",
    path: `${base}/{name}`,
    summary: `Takes a skill${whose} out of every catalog.`,
    access: writes,
    tenancy: [{ of: "skill" }],
    params: params({ name }),
    reply: {
      description: "All its versions are archived.",
      schema: Type.Object({ name, live_version: Type.Null() }),
    },
    fails: ["not_found", "conflict", "storage_unavailable"],
    async handle({ params: given, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "write");
      const id = idOf(place, given as Params);
      await place.lib.remove(place.store, id, place.by);
      return json({ name: id.name, live_version: null });
    },
  });

  const promote = route({
    ...common,
    method: "POST",
    path: `${base}/{name}/versions/{version}/promote`,
    summary: "Saves a version of a personal library as a draft of the tenant's skill.",
    access: writes,
    tenancy: [{ of: "skill", body: () => ({ reason: "" }) }],
    params: params({ name, version }),
    body: Type.Object({ reason }, { additionalProperties: false }),
    reply: { status: 201, description: "The draft in the tenant's library.", schema: SkillWritten },
    fails: [...writeFails, "version_corrupt", "name_shadows_host_skill", "skills_full", "parent_changed"],
    async handle({ params: given, body, principal }, context) {
      const place = await placeOf(given as Params, principal, context, "write");
      const row = await place.lib.promote(place.store, idOf(place, given as Params), place.by, body.reason);
      const org = { ...place, library: "" };
      const detail = versionDetail(row, await shadows(org, row.name));
      return masked(place, 201, { ...detail, published: false, publish_blocked: null });
    },
  });
  const decisions = [publication(false), publication(true), reject, adopt, remove];
  return [create, save, ...decisions, ...(kind === "org" ? [] : [promote])];
}

/** The routes that change the tenant's library and personal ones. */
export const skillVersionRoutes: readonly Route[] = [...routesOf("org"), ...routesOf("personal")];
