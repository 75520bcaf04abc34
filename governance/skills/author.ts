import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import type { SkillRules } from "../../manifests/sections/skills.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { type SkillVersionRow, skillVersion, storedSkill } from "../../storage/tables/skills.ts";
import { hasScopes } from "../auth/scopes.ts";
import type { BundleFiles } from "./bundle.ts";
import { ownerName, personalLibrary } from "./catalog.ts";
import { queueEvaluation, type SkillEvalDeps } from "./evaluations.ts";
import { type FeedbackDeps, submitFeedback } from "./feedback.ts";
import { jobOwner } from "./job-owner.ts";
import { admitDraft, type Librarian, type SkillLibrary } from "./library.ts";

// Skills that agents write. Each is a draft within a cap; in the mode `publish`, after a person has approved the call, a version that
// descends from no operator's text is published too, through the same gate as any other.

/** The refusals of an agent, in addition to those of the library. */
export type AuthorRefusal = "personal_skill" | "no_personal_library" | "missing_scope";

/** A skill that an agent writes. */
export interface AgentSkill {
  /** Null for a new skill. */
  readonly name: string | null;
  readonly files: BundleFiles;
  readonly reason: string;
  readonly library: "org" | "personal";
}

/** The outcome of a write. */
export type AuthorOutcome =
  | {
      readonly kind: "saved";
      readonly row: SkillVersionRow;
      readonly reasons: readonly string[];
      /** `queued` with auto_eval, or the code of its refusal; null without. */
      readonly evaluation: string | null;
    }
  | { readonly kind: "refused"; readonly error: AuthorRefusal };

/** The outcome of feedback. */
export type FeedbackOutcome =
  | { readonly kind: "saved"; readonly id: string }
  | { readonly kind: "refused"; readonly error: AuthorRefusal };

/** The agent that writes, and for whom. */
export interface Author {
  readonly principal: Principal;
  readonly rules: SkillRules;
  readonly manifest: string;
  readonly session_id: string;
}

/** Saves a skill for an agent. Refuses as the library does, and with pending_cap_reached. */
export async function writeSkill(
  store: TenantStore,
  { principal, rules, manifest, session_id }: Author,
  { name, files, reason, library: wanted }: AgentSkill,
  library: SkillLibrary,
  deps: SkillEvalDeps,
): Promise<AuthorOutcome> {
  const { authoring } = rules;
  if (authoring === null) return { kind: "refused", error: "missing_scope" };
  const place = placeOf(principal, rules, wanted);
  if ("error" in place) return { kind: "refused", error: place.error };
  const by: Librarian = { sub: principal.sub, owner: place.owner, agent: { manifest, session_id } };
  const skill = name === null ? undefined : await storedSkill(store, place.library, name);
  if (name !== null && skill === undefined) {
    if (wanted === "org" && (await isPersonal(store, principal, name)))
      return { kind: "refused", error: "personal_skill" };
    throw new SvcError("not_found");
  }
  const id = { library: place.library, name: name ?? "", version: skill?.latest_version ?? "" };
  const parent = skill === undefined ? undefined : await skillVersion(store, id);
  await admitDraft(store, place.library, manifest, authoring.pendingMax);
  const isImported = parent?.source === "import" || parent?.lineage_import === 1;
  const row = await library.save(store, place.library, by, {
    ...{ files, reason, name, parent: skill?.latest_version ?? null, version: null, bump: "patch", source: "agent" },
    more: { lineage_import: isImported ? 1 : 0 },
  });
  // An agent's edit of a version that a person wrote is always a draft.
  const mayPublish = authoring.mode === "publish" && (parent === undefined || parent.source === "agent");
  const published = mayPublish ? await publishOrWhy(store, row, by, library) : { row, reasons: [] };
  const evaluation = authoring.autoEval ? await queued(store, row, principal, deps) : null;
  return { kind: "saved", ...published, evaluation };
}

async function publishOrWhy(store: TenantStore, row: SkillVersionRow, by: Librarian, library: SkillLibrary) {
  try {
    return { row: await library.publish(store, row, by, { isRollback: false }), reasons: [] };
  } catch (error) {
    const { code, details } = SvcError.from(error);
    if (code !== "publish_blocked") throw error;
    return { row, reasons: (details.detail as { reasons: readonly string[] }).reasons };
  }
}

/** Queues an evaluation of a saved draft. A refusal leaves the draft as it is. */
async function queued(store: TenantStore, row: SkillVersionRow, principal: Principal, deps: SkillEvalDeps) {
  try {
    await queueEvaluation(store, row, jobOwner(principal), deps);
    return "queued";
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return error.code;
  }
}

/** Submits feedback on a skill of the tenant for an agent. Refuses with not_found and feedback_cap_reached. */
export async function writeFeedback(
  store: TenantStore,
  { principal, manifest, session_id }: Author,
  {
    name,
    body,
    suggested_patch,
  }: { readonly name: string; readonly body: string; readonly suggested_patch: string | null },
  deps: FeedbackDeps,
): Promise<FeedbackOutcome> {
  const skill = await storedSkill(store, "", name);
  if (skill === undefined && (await isPersonal(store, principal, name)))
    return { kind: "refused", error: "personal_skill" };
  const by: Librarian = { sub: principal.sub, owner: "", agent: { manifest, session_id } };
  const written = { library: "", name, body, suggested_patch, target_version: null };
  return { kind: "saved", id: (await submitFeedback(store, by, written, deps)).id };
}

/** True if the caller's own library has a skill of the name. */
async function isPersonal(store: TenantStore, principal: Principal, name: string): Promise<boolean> {
  const own = personalLibrary(principal);
  return own !== null && (await storedSkill(store, own, name)) !== undefined;
}

function placeOf(
  principal: Principal,
  { personal }: SkillRules,
  wanted: AgentSkill["library"],
): { readonly library: string; readonly owner: string } | { readonly error: AuthorRefusal } {
  if (wanted === "org") return { library: "", owner: "" };
  if (personal !== "write") return { error: "personal_skill" };
  const own = personalLibrary(principal);
  if (own === null) return { error: "no_personal_library" };
  if (!hasScopes(principal, ["skills:personal"])) return { error: "missing_scope" };
  return { library: own, owner: ownerName(principal) };
}
