import type { ManifestCard } from "../../bus/protocol/manifests.ts";
import type { A2aVersion } from "../../bus/protocol/run.ts";
import { imageTypes } from "../../storage/tables/files.ts";

// The agent card in both generations of the protocol. A card of version 0.3 also lists the interface of version 1.0, for clients that know both.

/** What the card of an agent with governance.transparency_notice tells its users. */
const notice = "You are talking to an AI system.";

/** Returns the card of a manifest; `base` is the public URL of this server. */
export function agentCard(version: A2aVersion, card: ManifestCard, base: string): object {
  return version === "1.0" ? newerCard(card, base) : olderCard(card, base);
}

function newerCard(card: ManifestCard, base: string): object {
  return {
    ...commonFields(card),
    supportedInterfaces: interfaces(base),
    capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: true },
    securitySchemes: {
      bearer: { httpAuthSecurityScheme: { scheme: "bearer" } },
      key: { apiKeySecurityScheme: { location: "header", name: "X-API-Key" } },
    },
    securityRequirements: [{ schemes: { bearer: { list: [] } } }, { schemes: { key: { list: [] } } }],
  };
}

function olderCard(card: ManifestCard, base: string): object {
  return {
    protocolVersion: "0.3.0",
    ...commonFields(card),
    url: endpoint(base),
    preferredTransport: "JSONRPC",
    supportedInterfaces: interfaces(base),
    capabilities: { streaming: true, pushNotifications: false, stateTransitionHistory: false },
    supportsAuthenticatedExtendedCard: true,
    securitySchemes: {
      bearer: { type: "http", scheme: "bearer" },
      key: { type: "apiKey", in: "header", name: "X-API-Key" },
    },
    security: [{ bearer: [] }, { key: [] }],
  };
}

function commonFields(card: ManifestCard) {
  const { name, description, version, transparency } = card;
  const said = description === "" ? name : description;
  return {
    name,
    description: transparency ? `${said}${/[.!?]$/.test(said) ? "" : "."} ${notice}` : said,
    version,
    ...(transparency && { transparencyNotice: true }),
    defaultInputModes: ["text/plain", ...imageTypes],
    defaultOutputModes: ["text/plain"],
    skills: skillsOf(card),
  };
}

/** Returns the skills; a card must have at least one, and each skill at least one tag. */
function skillsOf({ name, description, tags, capabilities }: ManifestCard): object[] {
  const all = capabilities.length > 0 ? capabilities : [{ id: name, description, input_schema_ref: "" }];
  return all.map(({ id, description: said, input_schema_ref }) => ({
    id,
    name: id,
    description: said === "" ? id : said,
    tags: tags.length > 0 ? tags : [name],
    ...(input_schema_ref !== "" && { inputSchemaRef: input_schema_ref }),
  }));
}

function interfaces(base: string): object[] {
  return (["1.0", "0.3"] as const).map((protocolVersion) => ({
    url: endpoint(base),
    protocolBinding: "JSONRPC",
    protocolVersion,
  }));
}

function endpoint(base: string): string {
  return `${base}/a2a`;
}
