import { choice, flag, integer, list, nullable, section } from "../fields/fields.ts";
import { each, type Rule } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { Path } from "../problems.ts";
import type { AnomalySpec } from "./anomaly.ts";
import type { ApprovalsSpec } from "./approvals.ts";
import type { AuthSpec } from "./auth.ts";
import type { ContentScreeningSpec } from "./content-screening.ts";
import type { GuardrailsSpec } from "./guardrails.ts";
import type { LimitsSpec } from "./limits.ts";
import type { ObservabilitySpec } from "./observability.ts";
import type { PoliciesSpec } from "./policies.ts";

const fields = {
  governance: section("Requirements that the agent must meet.", {
    frameworks: list(
      "Rule sets. Each implies forbid_plaintext_secrets and pin_compile.",
      choice("A rule set.", ["soc2", "eu_ai_act"]),
    ),
    risk_tier: choice("Class under eu_ai_act.", ["limited", "high"], "limited"),
    transparency_notice: flag(
      "Tells users that they talk to an AI, in the agent card and by an instruction to the model.",
    ),
    forbid_plaintext_secrets: flag(
      "Allows secret:NAME only in fields for credentials. Always true if SVC_ENVIRONMENT is production.",
    ),
    pin_compile: flag(
      "Keeps a thread on the manifest version with which it started: 409 manifest_pin_moved otherwise.",
    ),
    retention_days: nullable(
      integer(
        "Days that threads without new events, ended runs, stored results and withheld texts are kept, unless a setting says fewer.",
        { minimum: 1, maximum: 3650 },
      ),
    ),
  }),
};

/** The fields that this section checks or changes, of sections that do not import each other. */
interface Credentials {
  readonly mcp_servers: readonly WithCredential[];
  readonly peers: readonly WithCredential[];
  readonly containers: readonly WithCredential[];
  readonly github_publish: WithCredential | null;
}

interface WithCredential {
  readonly auth: string | null;
}

/** The fields of this section in `spec`. */
export type GovernanceSpec = SpecOf<typeof fields>;

/** The compiled part of this section. */
interface CompiledGovernance {
  /** True if a thread stays on the manifest version of its first turn. */
  readonly isPinned: boolean;
  /** Days that the data of its runs is kept; null for those of the settings. */
  readonly retentionDays: number | null;
}

type Spec = GovernanceSpec &
  Credentials &
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

export const governance = defineSection({
  fields,
  rules,
  compile(spec: Spec, { registries, refuse }): CompiledGovernance {
    const { frameworks, forbid_plaintext_secrets, pin_compile, retention_days } = spec.governance;
    const isGoverned = frameworks.length > 0;
    if (isGoverned || forbid_plaintext_secrets || registries.forbidsPlaintextSecrets === true)
      for (const loc of plaintextSecrets(spec))
        refuse(loc, "must be secret:NAME, because plaintext secrets are forbidden here", "unsupported");
    return { isPinned: isGoverned || pin_compile, retentionDays: retention_days };
  },
});

/** Returns the places of credentials that the manifest contains itself. */
function plaintextSecrets({ mcp_servers, peers, containers, github_publish }: Credentials): Path[] {
  const isPlain = (auth: string | null) => auth !== null && !auth.startsWith("secret:");
  const found: Path[] = [];
  for (const [name, entries] of Object.entries({ mcp_servers, peers, containers }))
    for (const [at, { auth }] of entries.entries()) if (isPlain(auth)) found.push(["spec", name, at, "auth"]);
  if (github_publish !== null && isPlain(github_publish.auth)) found.push(["spec", "github_publish", "auth"]);
  return found;
}

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
