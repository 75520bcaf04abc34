import { calculator } from "./calculator.ts";
import { editFile } from "./edit-file.ts";
import { glob } from "./glob.ts";
import { listDir } from "./list-dir.ts";
import { multiEdit } from "./multi-edit.ts";
import { readFile } from "./read-file.ts";
import { searchFiles } from "./search-files.ts";
import { todoWrite } from "./todo-write.ts";
import type { Tool } from "./tool.ts";
import { writeFile } from "./write-file.ts";

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
