import { Type } from "../../../bus/type.ts";

/** The texts and the look of a brand. Every field has a default. */
export interface Identity {
  readonly greeting: string;
  readonly starters: readonly string[];
  readonly support_email: string;
  /** Lines before the instructions of the storefront's agent. */
  readonly prompt_extra: string;
  readonly currency: string;
  readonly theme: { readonly primary_color: string; readonly logo_url: string };
  readonly structured_data: { readonly enabled: boolean; readonly base_url: string };
  readonly consent: { readonly terms_version: string; readonly terms_url: string; readonly privacy_url: string };
}

/** The identity of a brand that sets nothing. */
export const plainIdentity: Identity = {
  greeting: "",
  starters: [],
  support_email: "",
  prompt_extra: "",
  currency: "usd",
  theme: { primary_color: "#1a1a1a", logo_url: "" },
  structured_data: { enabled: false, base_url: "" },
  consent: { terms_version: "", terms_url: "", privacy_url: "" },
};

const httpsUrl = (description: string) =>
  Type.String({
    maxLength: 2_000,
    pattern: "^(https://[^\\s\"'<>]+)?$",
    description,
    examples: ["https://shop.example/"],
  });
const closed = { additionalProperties: false } as const;

/** The schema of what an operator sets. */
export const IdentityGiven = Type.Object(
  {
    greeting: Type.Optional(
      Type.String({ maxLength: 1_000, description: "The first line of the chat.", examples: ["Hi!"] }),
    ),
    starters: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
        maxItems: 8,
        description: "Questions that the chat offers.",
        examples: [["Which shoes are waterproof?"]],
      }),
    ),
    support_email: Type.Optional(
      Type.String({
        maxLength: 254,
        pattern: '^([^\\s@<>"]+@[^\\s@<>"]+)?$',
        description: "Address for questions that the agent cannot answer.",
        examples: ["help@shop.example"],
      }),
    ),
    prompt_extra: Type.Optional(
      Type.String({ maxLength: 8_000, description: "Instructions for the agent.", examples: ["Speak plainly."] }),
    ),
    currency: Type.Optional(
      Type.String({ pattern: "^[a-z]{3}$", description: "Currency of every price.", examples: ["usd"] }),
    ),
    theme: Type.Optional(
      Type.Object(
        {
          primary_color: Type.Optional(
            Type.String({ pattern: "^#[0-9a-fA-F]{6}$", description: "Colour of buttons.", examples: ["#1a1a1a"] }),
          ),
          logo_url: Type.Optional(httpsUrl("The logo.")),
        },
        { ...closed, description: "The look of the widget." },
      ),
    ),
    structured_data: Type.Optional(
      Type.Object(
        {
          enabled: Type.Optional(Type.Boolean({ description: "Publishes the catalog for crawlers." })),
          base_url: Type.Optional(httpsUrl("Address of the shop's own pages.")),
        },
        { ...closed, description: "The catalog for crawlers." },
      ),
    ),
    consent: Type.Optional(
      Type.Object(
        {
          terms_version: Type.Optional(
            Type.String({ maxLength: 100, description: "Version of the terms.", examples: ["3"] }),
          ),
          terms_url: Type.Optional(httpsUrl("The terms.")),
          privacy_url: Type.Optional(httpsUrl("The privacy policy.")),
        },
        { ...closed, description: "What shoppers consent to." },
      ),
    ),
  },
  { ...closed, description: "What the brand shows and says; every field is optional." },
);

/** What an operator sets of an identity. */
export type GivenIdentity = {
  readonly [K in keyof Identity]?: Identity[K] extends readonly unknown[] | string ? Identity[K] : Partial<Identity[K]>;
};

/** Returns the identity with the given fields changed. */
export function mergedIdentity(before: Identity, given: GivenIdentity): Identity {
  return {
    ...before,
    ...given,
    theme: { ...before.theme, ...given.theme },
    structured_data: { ...before.structured_data, ...given.structured_data },
    consent: { ...before.consent, ...given.consent },
  };
}
