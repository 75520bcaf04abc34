import type { Address } from "../../bus/address.ts";
import type { ErrorCode } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { manifestMembersMax } from "../../manifests/bounds.ts";
import { json, jsonText } from "../exchange/reply.ts";
import { actorFails, type Route, route } from "../route.ts";
import { EpochMs, epochRange } from "../schemas/common.ts";
import { manifestsTag as tag } from "../tags.ts";

const NameParams = Type.Object({
  name: Type.String({ description: "The manifest's metadata.name.", examples: ["helper"] }),
});
const fails: readonly ErrorCode[] = ["name_mismatch", "invalid_manifest", "unknown_manifest", ...actorFails];
const ManifestObject = Type.Object(
  {},
  { additionalProperties: true, description: "As for PUT.", examples: [{ metadata: { name: "helper" }, spec: {} }] },
);

const plan = route({
  method: "POST",
  path: "/manifests/{name}/plan",
  summary: "What a manifest may do, and what it would change. Stores nothing.",
  tag,
  access: ["manifests:read"],
  tenancy: [{ of: "manifest", body: (id) => ({ manifest: { metadata: { name: `${id}x` } } }) }],
  params: NameParams,
  body: Type.Object({ manifest: ManifestObject }, { additionalProperties: false }),
  bodyMembersMax: manifestMembersMax + 1,
  reply: {
    description:
      "Tools with effect, risk, scopes and approval; hosts, scopes, limits and controls; the threads that a pin would stop; and the differences from the active version.",
    schema: Type.Object(
      {
        name: Type.String({ examples: ["helper"] }),
        digest: Type.String({ examples: ["60b725f10c9c85c70d97880dfe8191b3"] }),
        threads_stopped: Type.Integer({ description: "Threads that are pinned to another version.", examples: [0] }),
      },
      { additionalProperties: true },
    ),
  },
  fails,
  async handle({ params, body, principal }, { bus }) {
    const manifest = JSON.stringify(body.manifest);
    const found = await bus.ask(manifestsOf(principal), "plan", { name: params.name, manifest });
    const { threads_stopped } = found;
    return jsonText(`${found.plan.slice(0, -1)},"threads_stopped":${threads_stopped}}`);
  },
});

const Count = Type.Integer({ examples: [0] });

const policyTest = route({
  method: "POST",
  path: "/manifests/{name}/policy-test",
  summary: "What a manifest would do with the tool calls on record. Runs nothing.",
  tag,
  access: ["manifests:read", "audit:read"],
  tenancy: [{ of: "manifest", body: () => ({}) }],
  params: NameParams,
  body: Type.Object(
    {
      manifest: Type.Optional(ManifestObject),
      since: Type.Optional(Type.Integer({ ...epochRange, description: "Calls at or after this time." })),
      until: Type.Optional(Type.Integer({ ...epochRange, description: "Calls before this time." })),
      limit: Type.Integer({ minimum: 1, maximum: 5_000, default: 1_000, description: "Calls, the newest first." }),
      scopes: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: 128 }), {
          maxItems: 64,
          description: "Scopes of the callers; without them, calls of tools that need scopes are undecidable.",
        }),
      ),
    },
    { additionalProperties: false },
  ),
  bodyMembersMax: manifestMembersMax + 5,
  reply: {
    description: "`undecidable` calls depend on a model, a hook or a scope that is not on record.",
    schema: Type.Object({
      calls: Count,
      passed: Count,
      denied: Count,
      gated: Count,
      undecidable: Count,
      findings: Type.Array(
        Type.Object({
          tool: Type.String({ examples: ["calculator"] }),
          verdict: Type.Union([Type.Literal("denied"), Type.Literal("gated"), Type.Literal("undecidable")]),
          reason: Type.String({ examples: ["policy sums"] }),
          calls: Count,
          example: Type.Object({
            ts: EpochMs,
            thread_id: Type.String({ examples: ["default:tour"] }),
            tool_call_id: Type.String({ examples: ["call_1"] }),
          }),
        }),
      ),
      truncated: Type.Boolean({ description: "True if older calls were not compared.", examples: [false] }),
    }),
  },
  fails: [...fails, "invalid_window"],
  async handle({ params, body, principal }, { bus }) {
    const { manifest, since = null, until = null, limit, scopes = null } = body;
    const text = manifest === undefined ? null : JSON.stringify(manifest);
    const asked = { name: params.name, manifest: text, since, until, limit, scopes };
    return json(await bus.ask(manifestsOf(principal), "policyTest", asked));
  },
});

function manifestsOf({ tenant_id }: Principal): Address<"manifests"> {
  return { kind: "manifests", key: tenant_id };
}

/** Routes that look at a manifest before it is stored. */
export const manifestPlanRoutes: readonly Route[] = [plan, policyTest];
