import Type from "typebox";
import {
  choice,
  closed,
  endpointId,
  flag,
  integer,
  list,
  modelIdHelp,
  nullable,
  number,
  optionalText,
  references,
  section,
  share,
  text,
  texts,
  toolGlobs,
} from "./fields.ts";

export const policies = references(
  "Scopes that callers need for tools.",
  closed("One policy.", {
    id: text("Its id.", { maxLength: 128 }),
    description: optionalText("For people."),
    required_scopes: texts("Scopes that the caller must hold.", { minItems: 1 }),
    tools: toolGlobs("Tools it guards.", { minItems: 1 }),
  }),
);

export const guardrails = section("Looks for what must not pass.", {
  providers: list("Detectors.", choice("A detector.", ["pii"])),
  block_on_match: flag("True blocks, false masks what was found."),
  targets: Type.Unsafe<("input" | "output" | "final_response")[]>({
    type: "array",
    description: "Where to look.",
    items: choice("A place.", ["input", "output", "final_response"]),
    default: ["input", "output"],
  }),
  judges: list(
    "Models that judge.",
    closed("One judge.", {
      name: text("Its name.", { maxLength: 128 }),
      criteria: text("What is judged."),
      threshold: share("A lower score is a refusal.", 0.7),
      model: optionalText(`${modelIdHelp} Empty is the agent's own.`, { maxLength: 256 }),
      target_tools: toolGlobs("Tools whose calls are judged."),
      final_response: flag("Judges the reply."),
      decider: flag("Lets the decider judge."),
    }),
  ),
});

export const contentScreening = section("Looks for instructions in what comes from outside.", {
  enabled: flag("Switches it on."),
  model: optionalText(modelIdHelp, { maxLength: 256 }),
  tools: toolGlobs("Tools whose output is screened besides the untrusted ones."),
  on_flag: choice("What becomes of flagged content.", ["quarantine", "block"], "quarantine"),
  decider: flag("Lets the decider judge."),
  model_tools: toolGlobs("Tools whose output a model judges too."),
  image_model: optionalText("Route that judges images.", { maxLength: 256 }),
});

export const approvals = references(
  "Tool calls that wait for a person; a name goes before a glob, a later rule before an earlier one.",
  closed("One rule.", {
    id: text("Its id.", { maxLength: 128 }),
    description: optionalText("For people."),
    tools: toolGlobs("Tools it gates."),
    ttl_seconds: nullable(number("How long the question stands.", { exclusiveMinimum: 0, maximum: 3600 })),
    one_shot: flag("An approval is good for one call."),
    bind_principal: flag("An approval is good for its caller only."),
    allow_unattended: flag("Lets calls pass in runs that nobody watches."),
    when_args: texts("Names of arguments; only calls that carry all of them wait."),
  }),
);

const modes = ["default", "accept_edits", "plan", "bypass"] as const;

export const permissions = section("Modes that a conversation may be in.", {
  default_mode: choice("Mode of a new conversation.", modes, "default"),
  allowed_modes: Type.Unsafe<(typeof modes)[number][]>({
    type: "array",
    description: "Modes that may be chosen.",
    items: choice("A mode.", modes),
    default: ["default", "plan", "accept_edits"],
  }),
  read_only_tools: toolGlobs("Tools that run in plan mode."),
  edit_tools: toolGlobs("Tools whose approvals accept_edits waives."),
});

export const commandScreening = section("Looks at commands before they run.", {
  enabled: flag("Switches it on."),
  include_defaults: flag("Adds the built-in rules.", true),
  rules: list(
    "Rules, the first that matches decides.",
    closed("One rule.", {
      pattern: text("Part of a command.", { maxLength: 256 }),
      decision: choice("What happens.", ["allow", "deny", "require_approval"]),
      reason: nullable(Type.String({ description: "Told to whoever decides." })),
    }),
  ),
  target_tools: toolGlobs("Tools that are looked at."),
  approval_ttl_seconds: number("How long the question stands.", { exclusiveMinimum: 0, maximum: 3600, default: 300 }),
});

export const hooks = list(
  "Endpoints of the operator that are asked or told while a run goes on.",
  closed("One hook.", {
    id: text("Its id.", { maxLength: 128 }),
    event: choice("When.", [
      "session_start",
      "user_prompt_submit",
      "pre_tool_use",
      "post_tool_use",
      "stop",
      "subagent_stop",
    ]),
    endpoint: endpointId("Id of an endpoint that takes hooks."),
    type: choice("How.", ["http"], "http"),
    tools: toolGlobs("Tools, for tool events; empty is all."),
    timeout_ms: integer("For one call. Milliseconds.", { minimum: 1, maximum: 10_000, default: 5000 }),
    on_error: choice("What a failing endpoint means.", ["allow", "block"], "allow"),
  }),
  { maxItems: 16 },
);

export const governance = section("What the agent must live up to.", {
  frameworks: list("Rule sets.", choice("A rule set.", ["soc2", "eu_ai_act"])),
  risk_tier: choice("Class under eu_ai_act.", ["limited", "high"], "limited"),
  transparency_notice: flag("Says that an AI is speaking."),
  forbid_plaintext_secrets: flag("Takes secret:NAME only where a credential stands."),
  pin_compile: flag("Keeps a thread on the version it began with."),
  retention_days: nullable(integer("Days that conversations are kept.", { minimum: 1, maximum: 3650 })),
});
