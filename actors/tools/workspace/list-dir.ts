import { Type } from "../../../bus/type.ts";
import { defineTool } from "../tool.ts";
import type { Directory } from "./directory.ts";
import { answer } from "./refusal.ts";
import { Survey } from "./survey.ts";
import { inDirectory } from "./workspace.ts";
import { parseDirectoryPath } from "./workspace-path.ts";

const entriesMax = 500;
/** Concurrent stat calls. */
const looksAtOnce = 32;

/** Lists a directory: `name/` for a directory; name, tab and size for a file. Omits links and special files. */
export const listDir = defineTool({
  name: "list_dir",
  description:
    "Lists one directory of the workspace, sorted by name: `name/` for a directory, `name<TAB>size in bytes` for a file. " +
    `Shows at most ${entriesMax} entries and then says [truncated at ${entriesMax}].`,
  parameters: Type.Object(
    {
      path: Type.Optional(
        Type.String({
          description: "Directory, from the workspace's root, as in src/lib. Leave it out for the root itself.",
          maxLength: 4096,
        }),
      ),
    },
    { additionalProperties: false },
  ),
  effect: "read",
  risk: "reads",
  workspace: true,
  execute: (args, context) =>
    answer(() =>
      inDirectory(context, parseDirectoryPath(args.path), false, async (directory) => {
        if (directory === null) return "[empty]";
        const survey = new Survey(context);
        const { entries, more } = await directory.list(survey.namesLeft, survey);
        survey.names = entries.length;
        if (more) survey.cut();
        const shown = entries.filter((entry) => entry.kind === "file" || entry.kind === "directory");
        const lines: string[] = [];
        for (let at = 0; at < Math.min(shown.length, entriesMax); at += looksAtOnce) {
          survey.checkSignal();
          const batch = shown.slice(at, Math.min(at + looksAtOnce, entriesMax));
          lines.push(...(await Promise.all(batch.map((entry) => describe(directory, entry.name)))).flat());
        }
        if (shown.length > entriesMax) lines.push(`[truncated at ${entriesMax}]`);
        // The names read from a very large directory are not its first ones in order.
        lines.push(...survey.skipped("there are more names, which may come before these"));
        return lines.length === 0 ? "[empty]" : lines.join("\n");
      }),
    ),
});

/** Returns the line of an entry; none if it was removed or replaced by something else. */
async function describe(directory: Directory, name: string): Promise<string[]> {
  const stats = await directory.look(name);
  if (stats?.isDirectory()) return [`${name}/`];
  return stats?.isFile() ? [`${name}\t${stats.size}`] : [];
}
