import { hasScopes } from "../auth/scopes.ts";
import type { Control, GovernedRun } from "./control.ts";
import { pass } from "./verdicts.ts";

/** spec.policies: a call of a selected tool needs the policy's scopes. */
export function policies({ agent }: GovernedRun): Control | null {
  if (agent.policies.length === 0) return null;
  return {
    name: "policy",
    before({ tool, principal }) {
      for (const policy of agent.policies) {
        if (!policy.tools.has(tool)) continue;
        const missing = policy.required_scopes.filter((scope) => !hasScopes(principal, [scope]));
        if (missing.length > 0)
          return { verdict: "deny", rule: policy.id, detail: `${policy.id} requires scope ${missing.join(", ")}` };
      }
      return pass;
    },
  };
}
