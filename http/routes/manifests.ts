import type { Address } from "../../bus/address.ts";
import { type ErrorCode, SvcError } from "../../bus/errors.ts";
import { offered } from "../../bus/nearest.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { manifestMembersMax } from "../../manifests/bounds.ts";
import {
  type ManifestVersionRow,
  manifestPointer,
  manifestVersion,
  manifestVersions,
} from "../../storage/tables/manifests.ts";
import type { HttpContext } from "../context.ts";
import { json, jsonText, type Reply } from "../exchange/reply.ts";
import { actorFails, type Route, route } from "../route.ts";
import { EpochMs, nullable } from "../schemas/common.ts";
import { manifestsTag as tag } from "../tags.ts";
import { threadFilter } from "../thread-id.ts";

const readScopes = ["manifests:read"];
const writeScopes = ["manifests:write"];
const fails: readonly ErrorCode[] = ["not_found", ...actorFails];

const NameParams = Type.Object({
  name: Type.String({ description: "The manifest's metadata.name.", examples: ["helper"] }),
});
const VersionNumber = Type.Integer({
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "Number of a stored version.",
  examples: [1],
});
const Weight = Type.Integer({
  minimum: 0,
  maximum: 100,
  description: "Percent of threads that get the canary.",
  examples: [10],
});
const Comment = { maxLength: 2000, description: "A note for the list of versions." };

const Pointer = Type.Object({
  tenant_id: Type.String({ examples: ["default"] }),
  name: Type.String({ examples: ["helper"] }),
  version: Type.Integer({ description: "The active version.", examples: [1] }),
  canary_version: nullable(Type.Integer({ examples: [1] })),
  canary_weight: Weight,
  updated_at: EpochMs,
  updated_by: Type.String({ examples: ["ann"] }),
  source: Type.Literal("store"),
});

const versionFields = {
  tenant_id: Type.String({ examples: ["default"] }),
  name: Type.String({ examples: ["helper"] }),
  version: Type.Integer({ examples: [1] }),
  created_at: EpochMs,
  created_by: Type.String({ examples: ["ann"] }),
  comment: Type.String({ examples: ["The first version."] }),
};
/** The manifest itself. */
const ManifestBody = Type.Object(
  {},
  {
    additionalProperties: true,
    examples: [{ apiVersion: "svc/v1", kind: "Agent", metadata: { name: "helper" }, spec: { tools: ["calculator"] } }],
  },
);

const StoredVersion = Type.Object({ ...versionFields, manifest: ManifestBody });

const Listed = Type.Union([
  Pointer,
  Type.Object(
    {
      name: Type.String(),
      version: Type.Null(),
      source: Type.String(),
      valid: Type.Optional(Type.Literal(false, { description: "False for an invalid file of the operator." })),
      problems: Type.Optional(Type.Array(Type.String(), { description: "Its first problems." })),
    },
    { description: "A manifest that is not stored by the tenant." },
  ),
]);

const list = route({
  method: "GET",
  path: "/manifests",
  summary: "Every manifest that the tenant can use.",
  tag,
  access: readScopes,
  reply: {
    description: "`items` and `manifests` are the same list.",
    schema: Type.Object({ items: Type.Array(Listed), manifests: Type.Array(Listed) }),
  },
  fails: actorFails,
  async handle({ principal }, { bus }) {
    const listed = await bus.ask(manifestsOf(principal), "list", { models: false });
    const items = listed.items.map(
      ({ name, source, pointer, problems }) =>
        pointer ?? { name, version: null, source, ...(problems && { valid: false, problems }) },
    );
    return json({ items, manifests: items });
  },
});

const get = route({
  method: "GET",
  path: "/manifests/{name}",
  summary: "The manifest that a request would use, or one stored version of it.",
  tag,
  access: readScopes,
  tenancy: [
    { of: "manifest" },
    { of: "manifest", query: () => "version=1" },
    { of: "thread", query: () => "thread_id=t" },
  ],
  params: NameParams,
  query: Type.Object({
    version: Type.Optional(VersionNumber),
    thread_id: Type.Optional(
      Type.String({ description: "The manifest that this thread would use: its suffix or full id." }),
    ),
  }),
  reply: {
    description: "With `version` the stored version. Secrets in the manifest are masked.",
    schema: Type.Union([
      Type.Object({
        name: Type.String({ examples: ["helper"] }),
        version: nullable(Type.Integer({ examples: [1] })),
        variant: Type.Union([Type.Literal("stable"), Type.Literal("canary")]),
        source: Type.String({ examples: ["store"] }),
        manifest: ManifestBody,
      }),
      StoredVersion,
    ]),
  },
  fails: ["invalid_thread_id", "invalid_manifest", ...fails],
  async handle({ params, query, principal }, context) {
    const { name } = params;
    const thread_suffix = threadFilter(query.thread_id, principal.tenant_id);
    if (query.version !== undefined) return storedVersion(context, principal, name, query.version);
    try {
      return withManifest(await context.bus.ask(manifestsOf(principal), "get", { name, thread_suffix }));
    } catch (error) {
      // The manifest is the requested resource here, so an unknown one is a 404.
      if (!(error instanceof SvcError) || error.code !== "unknown_manifest") throw error;
      const { items } = await context.bus.ask(manifestsOf(principal), "list", { models: false });
      const names = items.map((item) => item.name);
      throw new SvcError("not_found", { message: `There is no manifest of this name.${offered(name, names)}` });
    }
  },
});

const versions = route({
  method: "GET",
  path: "/manifests/{name}/versions",
  summary: "The stored versions of a manifest, the newest first.",
  tag,
  access: readScopes,
  tenancy: [{ of: "manifest" }],
  params: NameParams,
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Versions per page." }),
    before: Type.Optional(Type.Integer({ ...VersionNumber, description: "`next_before` of the previous page." })),
  }),
  reply: {
    description: "Empty for a manifest that the tenant has not stored.",
    schema: Type.Object({
      items: Type.Array(
        Type.Object({
          ...versionFields,
          active: Type.Boolean(),
          canary: Type.Boolean({ description: "Whether it is the canary of some threads.", examples: [false] }),
        }),
      ),
      next_before: nullable(Type.Integer(), { examples: [null] }),
    }),
  },
  fails: ["storage_unavailable"],
  async handle({ params, query, principal }, { store }) {
    const { tenant_id } = principal;
    const tenant = store.tenant(tenant_id);
    const { limit, before = Number.MAX_SAFE_INTEGER } = query;
    const [pointer, rows] = await Promise.all([
      manifestPointer(tenant, params.name),
      // One more row than the page shows if there is a next page.
      manifestVersions(tenant, params.name, before, limit + 1),
    ]);
    const page = rows.slice(0, limit);
    const items = page.map(({ name, version, created_at, created_by, comment }) => ({
      tenant_id,
      name,
      version,
      created_at,
      created_by,
      comment,
      active: version === pointer?.version,
      canary: version === pointer?.canary_version,
    }));
    return json({ items, next_before: rows.length > limit ? (page.at(-1)?.version ?? null) : null });
  },
});

const put = route({
  method: "PUT",
  path: "/manifests/{name}",
  summary: "Stores a version, and activates it.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "manifest", body: (id) => ({ manifest: { metadata: { name: `${id}x` } } }) }],
  params: NameParams,
  body: Type.Object(
    {
      manifest: ManifestBody,
      comment: Type.String({ ...Comment, default: "" }),
      activate: Type.Boolean({
        default: true,
        description: "false stores a candidate for a canary. The first version of a manifest is active in any case.",
      }),
    },
    { additionalProperties: false },
  ),
  // The members of the manifest, and the field that contains it.
  bodyMembersMax: manifestMembersMax + 1,
  reply: {
    description: "The stored version; the existing one if the manifest has not changed. Secrets are masked.",
    schema: StoredVersion,
  },
  fails: ["name_mismatch", "invalid_manifest", "storage_quota_exceeded", "conflict", ...actorFails],
  async handle({ params, body, principal }, { bus, mask }) {
    const { name } = params;
    const manifest = JSON.stringify(body.manifest);
    const stored = await bus.ask(manifestsOf(principal), "put", { ...body, name, manifest, principal });
    return withManifest({ ...stored, manifest: mask.forms.jsonText(stored.manifest) });
  },
});

const setCanary = route({
  method: "POST",
  path: "/manifests/{name}/canary",
  summary: "Gives a stored version to a share of the threads.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "manifest", body: () => ({ canary_version: 1, canary_weight: 100 }) }],
  params: NameParams,
  body: Type.Object({ canary_version: VersionNumber, canary_weight: Weight }, { additionalProperties: false }),
  reply: { description: "The active version and the canary.", schema: Pointer },
  fails: ["unknown_version", ...fails],
  async handle({ params, body, principal }, { bus }) {
    const { canary_version: version, canary_weight: weight } = body;
    return json(await bus.ask(manifestsOf(principal), "canary", { name: params.name, version, weight, principal }));
  },
});

const clearCanary = route({
  method: "DELETE",
  path: "/manifests/{name}/canary",
  summary: "Gives every thread the active version again.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "manifest" }],
  params: NameParams,
  reply: { description: "The active version; unchanged if there was no canary.", schema: Pointer },
  fails,
  async handle({ params, principal }, { bus }) {
    return json(await bus.ask(manifestsOf(principal), "clearCanary", { name: params.name, principal }));
  },
});

const rollback = route({
  method: "POST",
  path: "/manifests/{name}/rollback",
  summary: "Makes a stored version the active one, and clears the canary.",
  tag,
  access: writeScopes,
  tenancy: [{ of: "manifest", body: () => ({ version: 1 }) }],
  params: NameParams,
  body: Type.Object(
    { version: VersionNumber, comment: Type.String({ ...Comment, default: "rollback" }) },
    { additionalProperties: false },
  ),
  reply: { description: "The active version and the canary.", schema: Pointer },
  fails,
  async handle({ params, body, principal }, { bus }) {
    return json(await bus.ask(manifestsOf(principal), "rollback", { name: params.name, ...body, principal }));
  },
});

function manifestsOf(principal: Principal): Address<"manifests"> {
  return { kind: "manifests", key: principal.tenant_id };
}

/** Refuses with not_found, also if stored versions are not in effect. */
async function storedVersion(context: HttpContext, principal: Principal, name: string, version: number) {
  const { tenant_id } = principal;
  const row: ManifestVersionRow | undefined =
    context.settings.manifestSource === "store"
      ? await manifestVersion(context.store.tenant(tenant_id), name, version)
      : undefined;
  if (!row) throw new SvcError("not_found");
  const { digest: _digest, manifest, ...rest } = row;
  // The tenant wrote this text itself, so only values in the form of a credential are masked.
  return withManifest({ tenant_id, ...rest, manifest: context.mask.forms.jsonText(manifest) });
}

/** Returns the reply with a manifest that is JSON text already. */
function withManifest<M extends { readonly manifest: string }>({ manifest, ...rest }: M): Reply {
  return jsonText(`${JSON.stringify(rest).slice(0, -1)},"manifest":${manifest}}`);
}

/** Returns the routes of manifests; without the write routes if only bundled manifests are served. */
export function manifestRoutes(source: "store" | "bundled"): readonly Route[] {
  const reading = [list, get, versions];
  return source === "store" ? [...reading, put, setCanary, clearCanary, rollback] : reading;
}
