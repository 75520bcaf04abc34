import { workspaceAddress } from "../../../bus/address.ts";
import { type ToolResult, toolError } from "../../tools/tool.ts";
import type { RunContext } from "../context/run-context.ts";

// The worktrees of tasks (spec.delegation.worktree). The actor of the parent's workspace makes them, commits what a task has changed, and
// answers with the change.

const openMs = 300_000;

/** Makes the worktree of a task, if its thread has a repository. Returns why the task cannot start; null if it can. */
export async function openWorktree({ deps, spec }: RunContext, task_id: string): Promise<ToolResult | null> {
  const address = workspaceAddress(spec.principal.tenant_id, spec.thread_suffix as string);
  const opened = await deps.bus.ask(address, "worktree_open", { task_id }, { deadlineMs: openMs });
  return opened.ok ? null : toolError(opened.code, opened.text);
}

/** Commits the work of a task that has ended. Returns the text about the changes for the parent; empty for none. */
export async function closeWorktree({ deps, spec }: RunContext, task_id: string): Promise<string> {
  const address = workspaceAddress(spec.principal.tenant_id, spec.thread_suffix as string);
  const closed = await deps.bus.ask(address, "worktree_close", { task_id }, { deadlineMs: openMs });
  if (!closed.ok) return closed.code === "not_found" ? "" : `\n\n[the work of the task: ${closed.text}]`;
  const { branch, stat } = closed.value;
  if (branch === null) return "";
  return `\n\n[task ${task_id} has changed files; merge_task takes them over. Branch ${branch}:]\n${stat}`;
}
