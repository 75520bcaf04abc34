import { flag, section, texts } from "./fields.ts";

export const auth = section("Who may call the agent, and which providers it may call.", {
  inbound: section("Who may call.", {
    schemes: texts("Kinds of caller; empty is any. jwt covers every JWT scheme."),
    required_scopes: texts("Scopes that every caller must hold."),
    allow_anonymous: flag("Admits callers without credentials."),
  }),
  outbound: section("Which providers.", {
    providers: texts("Providers that the model and every fallback must be of; empty is any."),
  }),
});
