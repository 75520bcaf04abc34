import { choice, flag, integer, list, nullable, section, unbuilt } from "../fields/fields.ts";
import { each, type Rule } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { AnomalySpec } from "./anomaly.ts";
import type { ApprovalsSpec } from "./approvals.ts";
import type { AuthSpec } from "./auth.ts";
import type { ContentScreeningSpec } from "./content-screening.ts";
import type { GuardrailsSpec } from "./guardrails.ts";
import type { LimitsSpec } from "./limits.ts";
import type { ObservabilitySpec } from "./observability.ts";
import type { PoliciesSpec } from "./policies.ts";

const fields = {
  governance: unbuilt(
    section("Requirements that the agent must meet.", {
      frameworks: list("Rule sets.", choice("A rule set.", ["soc2", "eu_ai_act"])),
      risk_tier: choice("Class under eu_ai_act.", ["limited", "high"], "limited"),
      transparency_notice: flag("Tells users that they talk to an AI."),
      forbid_plaintext_secrets: flag("Allows secret:NAME only in fields for credentials."),
      pin_compile: flag("Keeps a thread on the manifest version with which it started."),
      retention_days: nullable(integer("Days that threads are kept.", { minimum: 1, maximum: 3650 })),
    }),
  ),
};

type Spec = SpecOf<typeof fields> &
  AnomalySpec &
  ApprovalsSpec &
  AuthSpec &
  ContentScreeningSpec &
  GuardrailsSpec &
  LimitsSpec &
  ObservabilitySpec &
  PoliciesSpec;

const rules: readonly Rule<Spec>[] = [
  {
    says: "can name soc2 only with observability.trace, anomaly.enabled, one of policies, approvals and limits, and one of auth.inbound.schemes and required_scopes",
    broken: (spec) =>
      each("spec.governance.frameworks", spec.governance.frameworks, (name) => name === "soc2" && !meetsSoc2(spec)),
  },
  {
    says: "can name eu_ai_act only with transparency_notice and with content_screening or guardrails on input; risk_tier high also needs approvals without allow_unattended",
    broken: (spec) =>
      each(
        "spec.governance.frameworks",
        spec.governance.frameworks,
        (name) => name === "eu_ai_act" && !meetsAiAct(spec),
      ),
  },
];

export const governance = defineSection({ fields, rules });

function meetsSoc2(spec: Spec): boolean {
  const { schemes, required_scopes } = spec.auth.inbound;
  const { precount: _, ...bounds } = spec.limits;
  const controlled =
    spec.policies.length > 0 || spec.approvals.length > 0 || Object.values(bounds).some((bound) => bound !== null);
  return (
    spec.observability.trace && spec.anomaly.enabled && controlled && (schemes.length > 0 || required_scopes.length > 0)
  );
}

function meetsAiAct(spec: Spec): boolean {
  const { providers, judges, targets } = spec.guardrails;
  const guarded = (providers.length > 0 || judges.length > 0) && targets.includes("input");
  const supervised = spec.approvals.length > 0 && spec.approvals.every((rule) => !rule.allow_unattended);
  return (
    spec.governance.transparency_notice &&
    (spec.content_screening.enabled || guarded) &&
    (spec.governance.risk_tier !== "high" || supervised)
  );
}
