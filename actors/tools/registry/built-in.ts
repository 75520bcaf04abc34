import { readArtifact } from "../artifacts/read-artifact.ts";
import { calculator } from "../calculator/calculator.ts";
import { exitPlanMode } from "../plans/exit-plan-mode.ts";
import { planCreate, planGet, planUpdateStep } from "../plans/plan-tools.ts";
import { todoWrite } from "../plans/todo-write.ts";
import { askUser } from "../questions/ask-user.ts";
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
];

/** Built-in tools that sections of a manifest bind; spec.tools cannot name them. Their names are reserved. */
export const sectionTools: readonly Tool[] = [exitPlanMode, readArtifact];

/** The source of all built-in tools, those that sections bind included. */
export const builtInSource: ToolSource = {
  ...toolList("svc", [...builtInTools, ...sectionTools]),
  offers: builtInTools,
};
