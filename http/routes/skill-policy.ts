import { Type } from "../../bus/type.ts";
import type { PolicyValues } from "../../governance/skills/policy.ts";
import { personalLibraries } from "../../storage/tables/skills.ts";
import { json } from "../exchange/reply.ts";
import { type Route, route } from "../route.ts";
import { SkillPolicyRecord } from "../schemas/skill-library.ts";
import { skillLibraryTag as tag } from "../skills/library-place.ts";

const path = "/skill-library/-/policy";
const fails = ["conflict", "storage_unavailable"] as const;
const librariesMax = 500;

const read = route({
  method: "GET",
  path,
  summary: "The publish policy in force: the settings of the deployment, tightened by the tenant.",
  tag,
  access: ["skills:read"],
  reply: { description: "`tenant_values` are the tenant's own, null for none.", schema: SkillPolicyRecord },
  fails: ["storage_unavailable"],
  handle: async ({ principal }, { store, skillLibrary }) =>
    json(await skillLibrary.policy(store.tenant(principal.tenant_id))),
});

const change = route({
  method: "PATCH",
  path,
  summary: "Tightens the publish policy of the tenant.",
  tag,
  access: ["skills:write"],
  body: Type.Object(
    {
      min_quality: Type.Optional(Type.Integer({ minimum: 0, maximum: 100, description: "Minimum quality score." })),
      block_on_advisory: Type.Optional(Type.Boolean({ description: "Advisory findings block a publication." })),
      require_eval: Type.Optional(Type.Boolean({ description: "A publication needs an evaluation." })),
      min_eval_uplift: Type.Optional(
        Type.Union([Type.Number({ minimum: -100, maximum: 100 }), Type.Null()], {
          description: "Minimum improvement that the evaluation shows; null for none.",
        }),
      ),
      import_min_age_days: Type.Optional(
        Type.Integer({ minimum: 0, maximum: 365, description: "Minimum age of an imported commit." }),
      ),
    },
    { additionalProperties: false, examples: [{ block_on_advisory: true }] },
  ),
  reply: { description: "The policy in force. Looser values have no effect.", schema: SkillPolicyRecord },
  fails,
  handle: async ({ principal, body }, { store, skillLibrary }) =>
    json(await skillLibrary.setPolicy(store.tenant(principal.tenant_id), body as Partial<PolicyValues>, principal.sub)),
});

const remove = route({
  method: "DELETE",
  path,
  summary: "Returns the publish policy to the settings of the deployment.",
  tag,
  access: ["skills:write"],
  reply: { description: "The policy in force.", schema: SkillPolicyRecord },
  fails,
  handle: async ({ principal }, { store, skillLibrary }) =>
    json(await skillLibrary.setPolicy(store.tenant(principal.tenant_id), null, principal.sub)),
});

const personal = route({
  method: "GET",
  path: "/skill-library/-/personal",
  summary: "The personal libraries of the tenant.",
  tag,
  access: ["admin"],
  reply: {
    description: "`library` is the digest that names it in paths.",
    schema: Type.Object({
      items: Type.Array(
        Type.Object({
          library: Type.String({ examples: ["9f86d081884c7d65"] }),
          owner: Type.String({ description: "Issuer and subject.", examples: ["https://login.example|ann"] }),
          skills: Type.Integer({ examples: [3] }),
        }),
      ),
      truncated: Type.Boolean(),
    }),
  },
  fails: ["storage_unavailable"],
  async handle({ principal }, { store }) {
    const items = await personalLibraries(store.tenant(principal.tenant_id), librariesMax + 1);
    return json({ items: items.slice(0, librariesMax), truncated: items.length > librariesMax });
  },
});

/** The routes of the publish policy, and the list of personal libraries. */
export const skillPolicyRoutes: readonly Route[] = [read, change, remove, personal];
