import { admitsHost, isHostEntry } from "./hosts.ts";
import { type Path, type Problem, type ProblemType, writePath } from "./problems.ts";
import type { Manifest, ManifestSpec } from "./schema/manifest.ts";
import { gatesEveryCall, hasStyles, isLoop, isMulti, meetsAiAct, meetsSoc2, namedUrls, webUrl } from "./spec-facts.ts";

// What one field alone cannot be refused for. A rule says where the manifest breaks it; its sentence goes on after the path.

interface Rule {
  readonly says: string;
  /** Conflict unless it says otherwise. */
  readonly type?: ProblemType;
  readonly broken: (spec: ManifestSpec, manifest: Manifest) => readonly Path[];
}

/** Every rule that the manifest breaks, in the order of the rules. */
export function crossFieldProblems(manifest: Manifest): Problem[] {
  return rules.flatMap(({ says, type = "conflict", broken }) =>
    broken(manifest.spec, manifest).map((loc) => ({ loc, msg: `${writePath(loc)} ${says}.`, type })),
  );
}

const rules: readonly Rule[] = [
  // Patterns
  {
    says: "is required by the patterns router, parallel and groupchat",
    type: "missing",
    broken: (spec) => when(isMulti(spec) && spec.sub_agents.length === 0, "spec.sub_agents"),
  },
  {
    says: "goes with the patterns router, parallel and groupchat only",
    broken: (spec) => when(!isMulti(spec) && spec.sub_agents.length > 0, "spec.sub_agents"),
  },
  {
    says: "cannot name the manifest itself",
    broken: (spec, { metadata }) => each("spec.sub_agents", spec.sub_agents, (name) => name === metadata.name),
  },
  {
    says: "does not go with the patterns router, parallel and groupchat",
    broken: (spec) =>
      (["peers", "containers", "queues", "sandboxes", "browser_tools"] as const).flatMap((field) =>
        when(isMulti(spec) && spec[field].length > 0, `spec.${field}`),
      ),
  },
  {
    says: "goes with the patterns react and deep only",
    broken: (spec) => [
      ...when(!isLoop(spec) && spec.model.confidence_escalation.enabled, "spec.model.confidence_escalation"),
      ...when(!isLoop(spec) && spec.model.confidence_escalation.decider, "spec.model.confidence_escalation.decider"),
      ...when(!isLoop(spec) && hasStyles(spec), "spec.output_styles"),
      ...when(!isLoop(spec) && spec.skill_suggestion.enabled, "spec.skill_suggestion"),
      ...when(!isLoop(spec) && spec.hooks.length > 0, "spec.hooks"),
    ],
  },
  {
    says: "does not go with the pattern groupchat",
    broken: (spec) => when(spec.pattern === "groupchat" && spec.output_schema !== null, "spec.output_schema"),
  },
  {
    says: "does not go with sub_agents",
    broken: (spec) => when(spec.delegation !== null && spec.sub_agents.length > 0, "spec.delegation"),
  },

  // Model and decider
  {
    says: "needs spec.model.confidence_escalation.escalate_to",
    broken: ({ model: { confidence_escalation: escalation } }) =>
      when(escalation.enabled && escalation.escalate_to === "", "spec.model.confidence_escalation.enabled"),
  },
  {
    says: "needs enabled and escalate_to beside it",
    broken: ({ model: { confidence_escalation: escalation } }) =>
      when(
        escalation.decider && !(escalation.enabled && escalation.escalate_to !== ""),
        "spec.model.confidence_escalation.decider",
      ),
  },
  {
    says: "needs spec.decider.id",
    broken: (spec) => (spec.decider.id === "" ? deciderFlags(spec) : []),
  },
  {
    says: "needs spec.tools_retrieval.enabled",
    broken: ({ tools_retrieval: retrieval }) =>
      when(retrieval.decider && !retrieval.enabled, "spec.tools_retrieval.decider"),
  },

  // Names that must tell things apart
  {
    says: "is there twice, case aside",
    broken: (spec) => [
      ...twice("spec.prompts", "name", spec.prompts, (name) => name.toLowerCase()),
      ...twice("spec.output_styles.styles", "name", spec.output_styles.styles, (name) => name.toLowerCase()),
    ],
  },
  {
    says: "is there twice",
    broken: (spec) => [
      ...named.flatMap((field) => twice(`spec.${field}`, "name", spec[field])),
      ...identified.flatMap((field) => twice(`spec.${field}`, "id", spec[field])),
      ...twice("spec.delegation.agents", "name", spec.delegation?.agents ?? []),
      ...twice("spec.guardrails.judges", "name", spec.guardrails.judges),
      ...twice("spec.a2a.capabilities", "id", spec.a2a.capabilities),
    ],
  },
  {
    says: "names no style of spec.output_styles.styles",
    broken: ({ output_styles: { default: name, styles } }) =>
      when(name !== null && !styles.some((style) => style.name === name), "spec.output_styles.default"),
  },

  // Network
  {
    says: "must be a host, *. before a host, or an IP address, without scheme, port and path and in ASCII",
    type: "pattern",
    broken: ({ network }) =>
      each("spec.network.allow_hosts", network.allow_hosts ?? [], (entry) => !isHostEntry(entry)),
  },
  {
    says: "needs spec.network.allow_hosts with the host of each credential",
    broken: ({ network }) =>
      when(network.credentials.length > 0 && !network.allow_hosts?.length, "spec.network.credentials"),
  },
  {
    says: "does not go with spec.network",
    broken: (spec) => when(spec.network.allow_hosts !== null && spec.browser_tools.length > 0, "spec.browser_tools"),
  },
  {
    says: "must be an http or https URL",
    type: "pattern",
    broken: (spec) => namedUrls(spec).flatMap(({ loc, url }) => (webUrl(url) === null ? [loc] : [])),
  },
  {
    says: "is a URL whose host is not in spec.network.allow_hosts",
    broken: (spec) => {
      const allowed = spec.network.allow_hosts;
      if (allowed === null) return [];
      return namedUrls(spec).flatMap(({ loc, url }) => {
        const host = webUrl(url)?.hostname;
        return host !== undefined && !admitsHost(allowed, host) ? [loc] : [];
      });
    },
  },
  {
    says: "is required by the transports http and sse",
    type: "missing",
    broken: (spec) =>
      each(
        "spec.mcp_servers",
        spec.mcp_servers,
        (server) => server.transport !== "stdio" && server.url === null,
        "url",
      ),
  },
  {
    says: "is required by the transport stdio",
    type: "missing",
    broken: (spec) =>
      each(
        "spec.mcp_servers",
        spec.mcp_servers,
        (server) => server.transport === "stdio" && server.command === null,
        "command",
      ),
  },
  {
    says: "does not go with the transport stdio",
    broken: (spec) =>
      each(
        "spec.mcp_servers",
        spec.mcp_servers,
        (server) => server.transport === "stdio" && server.url !== null,
        "url",
      ),
  },
  {
    says: "goes with the transport stdio only",
    broken: (spec) =>
      each(
        "spec.mcp_servers",
        spec.mcp_servers,
        (server) => server.transport !== "stdio" && server.command !== null,
        "command",
      ),
  },

  // Skills
  {
    says: "must be off when spec.skills_declared_only is true",
    broken: (spec) => when(spec.personal_skills !== "off" && spec.skills_declared_only, "spec.personal_skills"),
  },
  {
    says: "can be write only when spec.skill_authoring.enabled is true",
    broken: (spec) => when(spec.personal_skills === "write" && !spec.skill_authoring.enabled, "spec.personal_skills"),
  },
  {
    says: "can be publish only with approval rules for create_skill and update_skill that have no when_args",
    broken: (spec) =>
      when(
        spec.skill_authoring.mode === "publish" &&
          !["create_skill", "update_skill"].every((tool) => gatesEveryCall(spec, tool)),
        "spec.skill_authoring.mode",
      ),
  },
  {
    says: "needs spec.decider.id",
    broken: (spec) => when(spec.skill_suggestion.enabled && spec.decider.id === "", "spec.skill_suggestion.enabled"),
  },

  // Governance
  {
    says: "is blank",
    type: "too_short",
    broken: (spec) => [
      ...spec.policies.flatMap(({ required_scopes }, at) =>
        each(["spec", "policies", at, "required_scopes"], required_scopes, isBlank),
      ),
      ...each("spec.auth.inbound.required_scopes", spec.auth.inbound.required_scopes, isBlank),
      ...Object.entries(spec.tool_guidance).flatMap(([key, line]) =>
        isBlank(line) ? [["spec", "tool_guidance", key]] : [],
      ),
    ],
  },
  {
    says: "must be one of spec.permissions.allowed_modes and not bypass",
    broken: ({ permissions }) =>
      when(
        permissions.default_mode === "bypass" || !permissions.allowed_modes.includes(permissions.default_mode),
        "spec.permissions.default_mode",
      ),
  },
  {
    says: "needs spec.content_screening.model or decider",
    broken: ({ content_screening: screening }) =>
      when(
        screening.model_tools.length > 0 && screening.model === "" && !screening.decider,
        "spec.content_screening.model_tools",
      ),
  },
  {
    says: "needs spec.content_screening.enabled",
    broken: ({ content_screening: screening }) =>
      when(screening.image_model !== "" && !screening.enabled, "spec.content_screening.image_model"),
  },
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

  // Execution
  {
    says: "goes with spec.execution.mode durable only",
    broken: ({ execution }) =>
      when(execution.webhooks.length > 0 && execution.mode !== "durable", "spec.execution.webhooks"),
  },
];

/** Lists whose entries are told apart by name, and by id. */
const named = [
  "skills",
  "mcp_servers",
  "peers",
  "containers",
  "queues",
  "sandboxes",
  "shell_tools",
  "http_tools",
  "search_tools",
  "document_tools",
  "image_tools",
  "browser_tools",
  "client_tools",
] as const;
const identified = ["policies", "approvals", "hooks"] as const;

function isBlank(text: string): boolean {
  return text.trim() === "";
}

function deciderFlags(spec: ManifestSpec): Path[] {
  return [
    ...when(spec.tools_retrieval.decider, "spec.tools_retrieval.decider"),
    ...when(spec.model.confidence_escalation.decider, "spec.model.confidence_escalation.decider"),
    ...each("spec.guardrails.judges", spec.guardrails.judges, (judge) => judge.decider, "decider"),
    ...when(spec.reflect.decider, "spec.reflect.decider"),
    ...when(spec.content_screening.decider, "spec.content_screening.decider"),
  ];
}

function when(broken: boolean, path: string): Path[] {
  return broken ? [path.split(".")] : [];
}

/** The entries of a list that break a rule; `key` is the field of the entry that the problem is told of. */
function each<T>(path: string | Path, entries: readonly T[], broken: (entry: T) => boolean, ...key: string[]): Path[] {
  const base = typeof path === "string" ? path.split(".") : path;
  return entries.flatMap((entry, at) => (broken(entry) ? [[...base, at, ...key]] : []));
}

/** Every entry whose name an earlier one has. */
function twice<K extends string>(
  path: string,
  key: K,
  entries: readonly Readonly<Record<K, string>>[],
  fold = (name: string) => name,
): Path[] {
  const seen = new Set<string>();
  return each(
    path,
    entries,
    (entry) => {
      const name = fold(entry[key]);
      return seen.size === seen.add(name).size;
    },
    key,
  );
}
