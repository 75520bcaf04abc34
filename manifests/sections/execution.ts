import { choice, endpointId, integer, list, nullable, section } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  execution: section("How runs are executed.", {
    mode: choice("transient answers at once; durable survives restarts.", ["transient", "durable"], "transient"),
    resume_token_ttl_seconds: nullable(
      integer("Maximum wait of a durable run after its last step; null is SVC_HIBERNATE_AFTER_SECONDS.", {
        minimum: 1,
        maximum: 86_400,
      }),
    ),
    tools: choice("Whether calls of one reply run one after another.", ["sequential", "parallel"], "sequential"),
    webhooks: list("Webhook endpoints to notify when a durable run ends.", endpointId("Id of an endpoint."), {
      maxItems: 8,
    }),
  }),
};

type Spec = SpecOf<typeof fields>;

const rules: readonly Rule<Spec>[] = [
  {
    says: "goes with spec.execution.mode durable only",
    broken: ({ execution }) =>
      when(execution.webhooks.length > 0 && execution.mode !== "durable", "spec.execution.webhooks"),
  },
];

export const execution = defineSection({
  fields,
  rules,
  compile({ execution }: Spec, { registries, tenantId, refuse }) {
    const webhooks = [...new Set(execution.webhooks)];
    for (const id of webhooks) {
      const tenants = registries.webhookEndpoints.get(id) ?? [];
      // The message is the same for a missing endpoint and for one of another tenant, so that it reveals nothing.
      if (tenants === "*" || tenants.includes(tenantId)) continue;
      const at = ["spec", "execution", "webhooks", execution.webhooks.indexOf(id)];
      refuse(at, `names an unknown webhook endpoint: ${id}`, "unresolved");
    }
    return {
      parallelTools: execution.tools === "parallel",
      durable: execution.mode === "durable" ? { ttlSeconds: execution.resume_token_ttl_seconds, webhooks } : null,
    };
  },
});
