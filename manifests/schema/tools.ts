import Type from "typebox";
import {
  choice,
  closed,
  flag,
  integer,
  list,
  mapOf,
  nullable,
  references,
  referencesMax,
  section,
  text,
} from "./fields.ts";

export const tools = list("Built-in tools that the model may call.", text("Name of a tool.", { maxLength: 128 }));

export const workspace = section("Where workspace tools work.", {
  scope: choice("Who shares the directory.", ["thread", "tenant", "deployment"], "thread"),
});

export const toolGuidance = mapOf(
  "A line for the system prompt by tool name or glob.",
  Type.String({
    minLength: 1,
    maxLength: 500,
    pattern: "^[^\\r\\n]+$",
    patternHelp: "must be one line",
  }),
  referencesMax,
);

export const toolEffects = mapOf(
  "How often a remote tool may run, by tool name or glob.",
  choice("The effect.", ["read", "idempotent", "once"]),
  referencesMax,
);

export const toolsRetrieval = section("Tells the model of the fitting tools only.", {
  enabled: flag("Switches it on."),
  top_k: integer("Tools that the model is told of.", { minimum: 1, default: 20 }),
  model: Type.String({ description: "Embedding model.", minLength: 1, default: "bge-base-en-v1.5" }),
  decider: flag("Lets the decider choose."),
});

export const artifacts = section("Keeps long tool output aside and shows the model its beginning.", {
  enabled: flag("Switches it on."),
  threshold_chars: integer("Longer output is kept aside.", { minimum: 1, default: 8000 }),
  preview_chars: integer("Characters that the model sees at once.", { minimum: 0, default: 200 }),
  default_window_chars: integer("Characters of one read.", { minimum: 1, default: 4000 }),
  max_window_chars: integer("Most characters of one read.", { minimum: 1, default: 16_000 }),
});

export const clientTools = references(
  "Tools that the client carries out.",
  closed("One tool.", {
    name: text("Its name.", { maxLength: 64 }),
    description: Type.String({ description: "Told to the model.", default: "" }),
    args_schema: nullable(Type.Unsafe<Record<string, unknown>>({ type: "object", description: "JSON Schema." })),
    timeout_seconds: Type.Unsafe<number | null>({
      type: ["number", "null"],
      description: "How long the run waits.",
      exclusiveMinimum: 0,
      maximum: 3600,
      default: 120,
    }),
    fatal: flag("True ends the run when the tool fails."),
  }),
);
