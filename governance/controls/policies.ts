import { hasScopes } from "../auth/scopes.ts";
import type { Control } from "./pipeline.ts";

/** spec.policies: a call of a selected tool needs the policy's scopes. */
export const policies: Control = {
  name: "policy",
  before({ agent, tool, principal }) {
    for (const policy of agent.policies) {
      if (!policy.tools.has(tool)) continue;
      const missing = policy.required_scopes.filter((scope) => !hasScopes(principal, [scope]));
      if (missing.length > 0)
        return { control: "policy", rule: policy.id, detail: `${policy.id} requires scope ${missing.join(", ")}` };
    }
    return null;
  },
};
