import type { ToolSpec } from "../../../manifests/registries.ts";
import { shellKill, shellOutput } from "../../../manifests/sections/shell-tools.ts";
import { readArtifact } from "../artifacts/read-artifact.ts";
import { calculator } from "../calculator/calculator.ts";
import { searchDocumentsTool } from "../documents/search-documents.ts";
import { memoryTools } from "../memory/memory-tools.ts";
import { exitPlanMode } from "../plans/exit-plan-mode.ts";
import { planCreate, planGet, planUpdateStep } from "../plans/plan-tools.ts";
import { todoWrite } from "../plans/todo-write.ts";
import { askUser } from "../questions/ask-user.ts";
import { backgroundMsMax } from "../shell/background-commands.ts";
import { createSkill, submitSkillFeedback, updateSkill } from "../skills/author-tools.ts";
import { activateSkill, deactivateSkill, listSkills, readSkillFile } from "../skills/skill-tools.ts";
import { type ToolSource, toolList } from "../source.ts";
import type { Tool } from "../tool.ts";
import { triggerEvent } from "../triggers/trigger-event.ts";
import { editFile } from "../workspace/edit-file.ts";
import { glob } from "../workspace/glob.ts";
import { listDir } from "../workspace/list-dir.ts";
import { multiEdit } from "../workspace/multi-edit.ts";
import { readFile } from "../workspace/read-file.ts";
import { searchFiles } from "../workspace/search-files.ts";
import { writeFile } from "../workspace/write-file.ts";

/** The built-in tools that manifests may name in spec.tools. */
export const builtInTools: readonly Tool[] = [
  calculator,
  listDir,
  readFile,
  writeFile,
  editFile,
  multiEdit,
  searchFiles,
  glob,
  todoWrite,
  planCreate,
  planUpdateStep,
  planGet,
  askUser,
  triggerEvent,
  searchDocumentsTool,
  listSkills,
  activateSkill,
  deactivateSkill,
  readSkillFile,
];

const authorTools = [createSkill, updateSkill, submitSkillFeedback];

/** Built-in tools that sections of a manifest bind; spec.tools cannot name them. Their names are reserved. */
const sectionTools: readonly Tool[] = [exitPlanMode, readArtifact, ...memoryTools, ...authorTools];

/** The same, and those that are made for a process: for commands in the background. */
export const sectionToolSpecs: readonly (ToolSpec & Pick<Tool, "timeoutMs">)[] = [
  ...sectionTools,
  ...[shellOutput, shellKill].map((spec) => ({ ...spec, timeoutMs: backgroundMsMax })),
];

/** The source of all built-in tools, those that sections bind included. */
export const builtInSource: ToolSource = {
  ...toolList("svc", [...builtInTools, ...sectionTools]),
  offers: builtInTools,
};
