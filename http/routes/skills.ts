import type { Address } from "../../bus/address.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { Type } from "../../bus/type.ts";
import { requireChat } from "../../governance/auth/scopes.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import { auditPage } from "../../storage/tables/audit.ts";
import { json, jsonText } from "../exchange/reply.ts";
import { actorFails, type Route, route } from "../route.ts";
import { EpochMs } from "../schemas/common.ts";
import type { Tag } from "../tags.ts";

const tag: Tag = { name: "Skills", description: "Instructions that agents load when they need them." };
const access = ["skills:read"];
const activations = "skill_activation";

const manifestName = Type.String({ description: "Name of the manifest.", examples: ["quick"] });
const itemFields = {
  name: Type.String({ examples: ["calculator-help"] }),
  description: Type.String({ examples: ["How to use the tool calculator."] }),
  version: Type.String({ description: "Empty if the skill names none.", examples: ["1.0.0"] }),
  active: Type.Boolean({ description: "True if it is active in the thread of the request." }),
  model_invocable: Type.Boolean({
    description: "False if the author wants only people to activate it.",
    examples: [true],
  }),
  declared: Type.Boolean({ description: "True if the manifest names it." }),
  source: Type.Union([Type.Literal("bundled"), Type.Literal("store"), Type.Literal("library")], {
    description: "Ships with svc, is in SVC_SKILLS_DIR, or is in the skill library.",
  }),
};
const threadQuery = Type.Object({
  thread_id: Type.Optional(
    Type.String({
      maxLength: 200,
      description: "A thread whose active skills are marked. With SVC_CHAT_SCOPES=strict it needs chat:read.",
    }),
  ),
});

const list = route({
  method: "GET",
  path: "/skills/{manifest_name}",
  summary: "The skills that a manifest's runs may use.",
  tag,
  access,
  tenancy: [{ of: "manifest" }],
  params: Type.Object({ manifest_name: manifestName }),
  query: threadQuery,
  reply: {
    description: "Declared skills first. `active` has the names of the active ones.",
    schema: Type.Object({
      manifest: manifestName,
      declared_only: Type.Boolean({ description: "spec.skills_declared_only of the manifest." }),
      items: Type.Array(
        Type.Object({
          ...itemFields,
          has_body: Type.Boolean({ description: "False if it has no instructions.", examples: [true] }),
        }),
      ),
      active: Type.Array(Type.String(), { examples: [[]] }),
    }),
  },
  fails: ["not_found", ...actorFails],
  async handle({ params: { manifest_name: name }, query: { thread_id = null }, principal }, { bus, settings }) {
    requireThread(principal, thread_id, settings);
    return json(await bus.ask(manifestsOf(principal), "skills", { name, principal, thread_suffix: thread_id }));
  },
});

const one = route({
  method: "GET",
  path: "/skills/{manifest_name}/{skill_name}",
  summary: "A skill with its instructions.",
  tag,
  access,
  tenancy: [{ of: "manifest" }],
  params: Type.Object({
    manifest_name: manifestName,
    skill_name: Type.String({ description: "Name of the skill.", examples: ["calculator-help"] }),
  }),
  query: threadQuery,
  reply: {
    description: "Secrets in `body` and `metadata` are masked.",
    schema: Type.Object({
      ...itemFields,
      filename: Type.String({ examples: ["SKILL.md"] }),
      metadata: Type.Object({}, { additionalProperties: true, examples: [{ license: "MIT" }] }),
      body: Type.String({ examples: ["# Exact arithmetic"] }),
    }),
  },
  fails: ["not_found", "version_corrupt", "object_store_unavailable", ...actorFails],
  async handle({ params, query: { thread_id = null }, principal }, { bus, settings }) {
    requireThread(principal, thread_id, settings);
    const asked = { name: params.manifest_name, principal, thread_suffix: thread_id, skill: params.skill_name };
    const { metadata, ...skill } = await bus.ask(manifestsOf(principal), "skill", asked);
    return jsonText(`${JSON.stringify(skill).slice(0, -1)},"metadata":${metadata}}`);
  },
});

const recent = route({
  method: "GET",
  path: "/skills/{manifest_name}/activations/recent",
  summary: "When agents of a manifest activated skills, the newest first.",
  tag,
  access,
  params: Type.Object({ manifest_name: manifestName }),
  query: Type.Object({
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: "Most activations." }),
  }),
  reply: {
    description: "From the audit log: those of every caller, names of personal skills included.",
    schema: Type.Object({
      items: Type.Array(
        Type.Object({
          ts: EpochMs,
          skill: Type.String({ examples: ["calculator-help"] }),
          action: Type.Union([Type.Literal("activate"), Type.Literal("deactivate")]),
          thread_id: Type.String({ examples: ["default:tour"] }),
          tool_call_id: Type.String({ examples: ["call_1"] }),
          status: Type.Union([Type.Literal("ok"), Type.Literal("unknown_skill")]),
          library: Type.String({
            description: "`org`, the digest of a personal library, or empty for a skill of the server.",
            examples: ["org"],
          }),
        }),
      ),
    }),
  },
  fails: ["not_found", ...actorFails],
  async handle({ params: { manifest_name: name }, query: { limit }, principal }, { bus, store }) {
    await bus.ask(manifestsOf(principal), "skills", { name, principal, thread_suffix: null });
    const filter = { event_type: activations, manifest_id: name };
    const { rows } = await auditPage(store.tenant(principal.tenant_id), filter, null, limit);
    return json({ items: rows.map(({ ts, status, payload }) => ({ ts, ...activationOf(payload), status })) });
  },
});

function activationOf(payload: string) {
  const { skill = "", action = "activate", thread_id = "", tool_call_id = "", library = "" } = JSON.parse(payload);
  return { skill, action, thread_id, tool_call_id, library };
}

/** Refuses a caller that may not read the thread whose active skills it asks for. */
function requireThread(principal: Principal, threadId: string | null, { chatScopes }: Settings): void {
  if (threadId !== null) requireChat(principal, chatScopes, "read");
}

function manifestsOf({ tenant_id }: Principal): Address<"manifests"> {
  return { kind: "manifests", key: tenant_id };
}

/** The read-only routes of skills. */
export const skillRoutes: readonly Route[] = [list, one, recent];
