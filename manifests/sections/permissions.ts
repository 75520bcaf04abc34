import { type PermissionMode, permissionModes } from "../../bus/protocol/permission-mode.ts";
import { choice, list, section, toolGlobs } from "../fields/fields.ts";
import { type Rule, when } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import { matchAnyGlob, matchGlob } from "../glob.ts";
import type { ToolSpec } from "../registries.ts";

/** Name of the tool by which an agent asks to leave plan mode; reserved for it. */
export const exitPlanModeName = "exit_plan_mode";

const fields = {
  permissions: section("Permission modes of threads.", {
    default_mode: choice("Mode of a new thread.", permissionModes, "default"),
    allowed_modes: {
      ...list("Modes that may be selected.", choice("A mode.", permissionModes), { maxItems: permissionModes.length }),
      default: ["default", "plan", "accept_edits"],
    },
    read_only_tools: toolGlobs("Tools that run in plan mode in addition to those that change nothing."),
    edit_tools: toolGlobs("Tools that need no approval in accept_edits, in addition to those that edit files."),
  }),
};

type Spec = SpecOf<typeof fields>;

const rules: readonly Rule<Spec>[] = [
  {
    says: "must be one of spec.permissions.allowed_modes and not bypass",
    broken: ({ permissions }) =>
      when(
        permissions.default_mode === "bypass" || !permissions.allowed_modes.includes(permissions.default_mode),
        "spec.permissions.default_mode",
      ),
  },
];

/** The allowed permission modes and their tools. */
export interface CompiledPermissions {
  readonly defaultMode: PermissionMode;
  readonly allowed: ReadonlySet<PermissionMode>;
  /** Names of bound tools that run in plan mode. */
  readonly readOnly: ReadonlySet<string>;
  /** Names of bound tools that accept_edits allows without approval. */
  readonly edits: ReadonlySet<string>;
}

/** Tools that edit files of the workspace. */
const editTools: readonly string[] = ["write_file", "edit_file", "multi_edit", "delete_file", "rename_file"];

export const permissions = defineSection({
  fields,
  rules,
  compile({ permissions }: Spec, { tools, selectsNothing }) {
    const { default_mode, allowed_modes, read_only_tools, edit_tools } = permissions;
    for (const [globs, kind] of [
      [read_only_tools, "read_only_tool"],
      [edit_tools, "edit_tool"],
    ] as const)
      for (const glob of globs) if (!tools.some(({ name }) => matchGlob(glob, name))) selectsNothing(glob, kind);
    const named = (fits: (tool: ToolSpec) => boolean): ReadonlySet<string> =>
      new Set(tools.filter(fits).map(({ name }) => name));
    const compiled: CompiledPermissions = {
      defaultMode: default_mode,
      allowed: new Set(allowed_modes),
      readOnly: named((tool) => changesNothing(tool) || matchAnyGlob(read_only_tools, tool.name)),
      edits: named(({ name }) => editTools.includes(name) || matchAnyGlob(edit_tools, name)),
    };
    return { permissions: compiled };
  },
});

/** True if the declared effect or risk says that the tool changes nothing. */
function changesNothing({ effect, risk }: ToolSpec): boolean {
  return effect === "read" || risk === "reads";
}
