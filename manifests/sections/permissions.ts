import { Type } from "../../bus/type.ts";
import { choice, section, toolGlobs, unbuilt } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";

const modes = ["default", "accept_edits", "plan", "bypass"] as const;

const fields = {
  permissions: unbuilt(
    section("Modes that a conversation may be in.", {
      default_mode: choice("Mode of a new conversation.", modes, "default"),
      allowed_modes: Type.Unsafe<(typeof modes)[number][]>({
        type: "array",
        description: "Modes that may be chosen.",
        items: choice("A mode.", modes),
        default: ["default", "plan", "accept_edits"],
      }),
      read_only_tools: toolGlobs("Tools that run in plan mode."),
      edit_tools: toolGlobs("Tools whose approvals accept_edits waives."),
    }),
    { promises: "Conversations have no permission modes; every one is in mode default." },
  ),
};

const rules: readonly Rule<SpecOf<typeof fields>>[] = [
  {
    says: "must be one of spec.permissions.allowed_modes and not bypass",
    broken: ({ permissions }) =>
      when(
        permissions.default_mode === "bypass" || !permissions.allowed_modes.includes(permissions.default_mode),
        "spec.permissions.default_mode",
      ),
  },
];

export const permissions = defineSection({ fields, rules });
