import { calculator } from "../calculator/calculator.ts";
import { todoWrite } from "../plans/todo-write.ts";
import { toolList } from "../source.ts";
import type { Tool } from "../tool.ts";
import { editFile } from "../workspace/edit-file.ts";
import { glob } from "../workspace/glob.ts";
import { listDir } from "../workspace/list-dir.ts";
import { multiEdit } from "../workspace/multi-edit.ts";
import { readFile } from "../workspace/read-file.ts";
import { searchFiles } from "../workspace/search-files.ts";
import { writeFile } from "../workspace/write-file.ts";

/** The tools that every installation has, for manifests to name in spec.tools. */
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
];

/** Where those come from. */
export const builtInSource = toolList("svc", builtInTools);
