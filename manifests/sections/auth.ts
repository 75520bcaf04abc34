import { flag, section, texts } from "../fields/fields.ts";
import { blank, each, isBlank, type Rule } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const fields = {
  auth: section("Callers of the agent, and providers that it may call.", {
    inbound: section("Callers.", {
      schemes: texts("Kinds of credentials; empty is any. jwt covers every JWT scheme."),
      required_scopes: texts("Scopes that every caller must have."),
      allow_anonymous: flag("Accepts callers without credentials."),
    }),
    outbound: section("Which providers.", {
      providers: texts("Allowed providers of the model and of every fallback; empty is any."),
    }),
  }),
};

/** The fields of this section in `spec`. */
export type AuthSpec = SpecOf<typeof fields>;

const rules: readonly Rule<AuthSpec>[] = [
  {
    says: blank,
    type: "too_short",
    broken: ({ auth: { inbound } }) => each("spec.auth.inbound.required_scopes", inbound.required_scopes, isBlank),
  },
];

/** The compiled part of this section. */
interface CompiledAuth {
  readonly inbound: {
    readonly schemes: readonly string[];
    readonly required_scopes: readonly string[];
    readonly allow_anonymous: boolean;
  };
  /** Allowed model providers; empty for any. Also applies to a model override. */
  readonly outboundProviders: readonly string[];
}

export const auth = defineSection({
  fields,
  rules,
  compile: ({ auth: { inbound, outbound } }: AuthSpec): CompiledAuth => ({
    inbound,
    outboundProviders: outbound.providers,
  }),
});
