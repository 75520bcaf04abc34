import { choice, flag, integer, section, text } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ModelRoute } from "../registries.ts";
import type { AuthSpec } from "./auth.ts";
import type { LimitsSpec } from "./limits.ts";
import { memoryTools } from "./memory-tools.ts";
import { namedRoute } from "./model-routes.ts";
import type { PatternSpec } from "./pattern.ts";

const cheapModel = () => text("Logical id of a model route.", { maxLength: 256, default: "claude-haiku" });

const fields = {
  memory: section("Long-term memory, and its store.", {
    checkpointer: text(
      "Where the session log lives: postgres (the service's database), or none for turns without a log.",
      {
        maxLength: 128,
        default: "postgres",
      },
    ),
    store: choice(
      "Store of the facts: pgvector (the service's database), memory (lost when the process ends) or none.",
      ["pgvector", "memory", "none"],
      "pgvector",
    ),
    scope: choice(
      "Whose facts a turn sees: those of the manifest, or only those of the turn's own caller.",
      ["manifest", "principal"],
      "manifest",
    ),
    capture: section("Stores facts after a turn.", {
      enabled: flag("Switches it on."),
      model: cheapModel(),
      max_facts: integer("Most facts of one turn.", { minimum: 1, maximum: 20, default: 5 }),
      min_chars: integer("Shorter turns are skipped.", { minimum: 0, default: 80 }),
      verify: flag("Checks each fact against the turn; it can only remove facts."),
    }),
    recall: section("Lets the model search facts.", {
      tools: flag("Binds remember, recall, forget and list_memories."),
      limit: integer("Most facts of one search.", { minimum: 1, maximum: 50, default: 5 }),
    }),
    consolidate: section("Merges duplicate facts.", {
      enabled: flag("Switches it on."),
      model: cheapModel(),
      after_facts: integer("New facts since the last time before it runs again.", { minimum: 10, default: 50 }),
      max_facts: integer("Most facts compared at once.", { minimum: 1, maximum: 500, default: 200 }),
    }),
  }),
};

/** The fields of this section in `spec`. */
export type MemorySpec = SpecOf<typeof fields>;
type Spec = MemorySpec &
  AuthSpec &
  LimitsSpec &
  PatternSpec & {
    readonly execution: { readonly mode: string };
    readonly procedural_memory: { readonly enabled: boolean };
  };

/** The compiled part of this section. */
export interface AgentMemory {
  /** False if turns leave no log. */
  readonly keepsLog: boolean;
  readonly store: "pgvector" | "memory" | "none";
  readonly scope: "manifest" | "principal";
  /** Null if no facts are captured. */
  readonly capture: CaptureRules | null;
  readonly recallLimit: number;
  /** Null if facts are not consolidated. */
  readonly consolidate: ConsolidateRules | null;
}

/** How facts of a turn are captured. */
export interface CaptureRules {
  readonly route: ModelRoute;
  readonly max_facts: number;
  readonly min_chars: number;
  readonly verify: boolean;
}

/** How duplicate facts are merged. */
export interface ConsolidateRules {
  readonly route: ModelRoute;
  readonly after_facts: number;
  readonly max_facts: number;
}

const rules: readonly Rule<Spec>[] = [
  {
    says: "needs a store of facts, and spec.memory.store is none",
    broken: ({ memory: { store, capture, recall, consolidate }, procedural_memory }) =>
      store === "none"
        ? [
            ...when(capture.enabled, "spec.memory.capture.enabled"),
            ...when(recall.tools, "spec.memory.recall.tools"),
            ...when(consolidate.enabled, "spec.memory.consolidate.enabled"),
            ...when(procedural_memory.enabled, "spec.procedural_memory.enabled"),
          ]
        : [],
  },
  {
    says: "needs a session log, and spec.memory.checkpointer is none",
    broken: ({ memory: { checkpointer, capture }, execution }) =>
      checkpointer === "none"
        ? [
            ...when(capture.enabled, "spec.memory.capture.enabled"),
            ...when(execution.mode === "durable", "spec.execution.mode"),
          ]
        : [],
  },
  {
    says: "does not go with the pattern router, whose sub-agents answer with tools of their own",
    broken: ({ memory: { recall }, pattern }) => when(recall.tools && pattern === "router", "spec.memory.recall.tools"),
  },
];

export const memory = defineSection({
  fields,
  rules,
  binds: ({ memory: { recall } }: Spec) =>
    recall.tools ? memoryTools.map((tool) => ({ loc: ["spec", "memory", "recall"], tool })) : [],
  compile(spec: Spec, context): { readonly memory: AgentMemory } {
    const { checkpointer, store, scope, capture, recall, consolidate } = spec.memory;
    if (checkpointer !== "postgres" && checkpointer !== "none")
      context.refuse(
        ["spec", "memory", "checkpointer"],
        `names the checkpointer ${checkpointer}, which does not exist; there are postgres and none`,
        "unresolved",
      );
    const routeOf = (of: "capture" | "consolidate") =>
      spec.memory[of].enabled
        ? namedRoute(spec, spec.memory[of].model, ["spec", "memory", of, "model"], context)
        : null;
    const capturing = routeOf("capture");
    const merging = routeOf("consolidate");
    const { max_facts, min_chars, verify } = capture;
    return {
      memory: {
        keepsLog: checkpointer !== "none",
        store,
        scope,
        capture: capturing && { route: capturing, max_facts, min_chars, verify },
        recallLimit: recall.limit,
        consolidate: merging && {
          route: merging,
          after_facts: consolidate.after_facts,
          max_facts: consolidate.max_facts,
        },
      },
    };
  },
});
