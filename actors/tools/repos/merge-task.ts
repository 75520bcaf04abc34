import { workspaceAddress } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import { mergeTaskToolName } from "../../../manifests/sections/delegation.ts";
import type { ToolSource } from "../source.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";

const mergeMs = 120_000;

/** Returns the source of merge_task, which takes over the work of tasks in worktrees. */
export function mergeTaskSource(bus: Bus): ToolSource {
  async function execute(
    { task_id, discard = false }: { readonly task_id: string; readonly discard?: boolean },
    { tenantId, threadSuffix }: ToolContext,
  ): Promise<ToolResult> {
    const address = workspaceAddress(tenantId, threadSuffix as string);
    const merged = await bus.ask(address, "worktree_merge", { task_id, discard }, { deadlineMs: mergeMs });
    if (!merged.ok) return toolError(merged.code, merged.text);
    const { stat, conflicts } = merged.value;
    if (discard) return { text: `The work of ${task_id} is discarded.` };
    const marked =
      conflicts.length === 0 ? "" : `\nThese files have conflicts, in git's marks: ${conflicts.join(", ")}`;
    return { text: `Merged.\n${stat}${marked}`, taint: ["file"] };
  }
  return {
    name: "worktrees",
    offers: [],
    resolve(name, agent) {
      const spec = name === mergeTaskToolName ? agent.tools.find((tool) => tool.name === name) : undefined;
      if (spec === undefined || agent.manifest.spec.delegation?.worktree !== true) return undefined;
      return { ...spec, needs: "thread", timeoutMs: mergeMs, execute } satisfies Tool;
    },
  };
}
