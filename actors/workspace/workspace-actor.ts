import type { Env } from "../../bus/env.ts";
import { defineActor } from "../runtime/define.ts";
import { deleteFile, readFile, renameFile, writeFile } from "./files.ts";
import { deleteFolder, eraseFiles, renameFolder } from "./folders.ts";
import { inPlace, type WorkspaceDeps } from "./place.ts";
import { readTree } from "./tree.ts";

/**
 * Serves the files of one thread to clients. It is placed on the node of the thread's runs, so that it and their tools lock the
 * same files.
 */
export const workspaceActor = defineActor<"workspace", null, WorkspaceDeps & { readonly env: Env }>({
  kind: "workspace",
  mailboxLimit: 32,
  interleaves: ["tree", "read"],
  reserved: [],
  passivateAfterMs: 30_000,
  load: () => null,
  idle: () => true,
  crashed: () => {},
  on: {
    tree: (_state, asked, context) => inPlace(asked, context, (place) => readTree(place, asked.limit)),
    read: (_state, asked, context) => inPlace(asked, context, (place) => readFile(place, asked)),
    write: (_state, asked, context) => inPlace(asked, context, (place) => writeFile(place, asked)),
    delete: (_state, asked, context) => inPlace(asked, context, (place) => deleteFile(place, asked)),
    delete_folder: (_state, asked, context) => inPlace(asked, context, (place) => deleteFolder(place, asked)),
    erase: (_state, _asked, context) => eraseFiles(context),
    rename: (_state, asked, context) => inPlace(asked, context, (place) => renameFile(place, asked)),
    rename_folder: (_state, asked, context) => inPlace(asked, context, (place) => renameFolder(place, asked)),
  },
});
