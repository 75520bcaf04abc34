import type { SkillCatalogRow } from "../../storage/tables/skills.ts";
import type { Settings } from "../settings/settings.ts";

// The publish policy: the conditions of a publication. The tenant's values tighten those of the deployment.

/** The values of a policy. */
export interface PolicyValues {
  readonly min_quality: number;
  readonly block_on_advisory: boolean;
  readonly require_eval: boolean;
  readonly min_eval_uplift: number | null;
  readonly import_min_age_days: number;
}

/** The policy in force. */
export interface SkillPolicy extends PolicyValues {
  readonly security_fail_blocks: true;
  readonly source: "settings" | "tenant" | "tenant+settings";
  readonly tenant_values: Partial<PolicyValues> | null;
  readonly updated_at: number | null;
  readonly updated_by: string | null;
}

/** The settings that a policy begins with. */
export type PolicySettings = Pick<
  Settings,
  | "skillPublishMinQuality"
  | "skillPublishBlockOnAdvisory"
  | "skillPublishRequireEval"
  | "skillPublishMinEvalUplift"
  | "skillImportMinAgeDays"
>;

/** Returns the policy in force for a tenant. */
export function policyOf(settings: PolicySettings, { policy, policy_at, policy_by }: SkillCatalogRow): SkillPolicy {
  const own = (policy ?? {}) as Partial<PolicyValues>;
  const uplifts = [settings.skillPublishMinEvalUplift, own.min_eval_uplift ?? null].filter((one) => one !== null);
  const isSet =
    settings.skillPublishMinQuality > 0 ||
    settings.skillPublishBlockOnAdvisory ||
    settings.skillPublishRequireEval ||
    settings.skillPublishMinEvalUplift !== null ||
    settings.skillImportMinAgeDays > 0;
  return {
    min_quality: Math.max(settings.skillPublishMinQuality, own.min_quality ?? 0),
    block_on_advisory: settings.skillPublishBlockOnAdvisory || (own.block_on_advisory ?? false),
    security_fail_blocks: true,
    require_eval: settings.skillPublishRequireEval || (own.require_eval ?? false),
    min_eval_uplift: uplifts.length === 0 ? null : Math.max(...uplifts),
    import_min_age_days: Math.max(settings.skillImportMinAgeDays, own.import_min_age_days ?? 0),
    source: policy === null ? "settings" : isSet ? "tenant+settings" : "tenant",
    tenant_values: policy as Partial<PolicyValues> | null,
    updated_at: policy_at,
    updated_by: policy_by,
  };
}

/** The facts of a version that the policy looks at. */
export interface Judged {
  readonly isValid: boolean;
  readonly quality_score: number;
  readonly security_status: "pass" | "advisory" | "fail";
  /** The improvement that the newest evaluation that counts has shown; undefined for none. */
  readonly uplift: number | undefined;
}

/** Returns why a version may not be published; empty if it may. A rollback needs no evaluation. */
export function blockedBy(policy: PolicyValues, judged: Judged, isRollback: boolean): string[] {
  const { isValid, quality_score, security_status, uplift } = judged;
  const reasons: string[] = [];
  if (!isValid) reasons.push("invalid_bundle");
  if (security_status === "fail") reasons.push("security_scan_failed");
  if (security_status === "advisory" && policy.block_on_advisory) reasons.push("advisory");
  if (quality_score < policy.min_quality) reasons.push("quality_below_floor");
  if (isRollback) return reasons;
  // A floor of the improvement needs an evaluation too.
  if (uplift === undefined && (policy.require_eval || policy.min_eval_uplift !== null)) reasons.push("eval_required");
  if (uplift !== undefined && policy.min_eval_uplift !== null && uplift < policy.min_eval_uplift)
    reasons.push("eval_uplift_below_floor");
  return reasons;
}
