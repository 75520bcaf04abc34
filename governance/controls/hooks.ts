import { taskToolName } from "../../manifests/sections/delegation.ts";
import type { Control, GovernedRun } from "./control.ts";
import { pass } from "./verdicts.ts";

/** spec.hooks around calls: an endpoint may refuse a call, and observes results and the ends of tasks. */
export function hooks(run: GovernedRun): Control | null {
  const { hooks: own } = run;
  if (own === null) return null;
  return {
    name: "hook",
    async before({ tool, tool_call_id, args }) {
      if (!own.listens("pre_tool_use", tool)) return pass;
      const of = { event: "pre_tool_use", key: tool_call_id, tool } as const;
      const { blocked, context } = await own.call({ ...of, names: { tool_name: tool }, texts: { args } });
      run.tellModel(context);
      return blocked === null ? pass : { verdict: "deny", rule: blocked.hook, detail: blocked.reason || "blocked" };
    },
    async after({ tool, tool_call_id, args }, { text, error }) {
      if (own.listens("post_tool_use", tool)) {
        const of = { event: "post_tool_use", key: tool_call_id, tool } as const;
        const told = { names: { tool_name: tool }, texts: { args }, results: { result: text } };
        run.tellModel((await own.call({ ...of, ...told })).context);
      }
      if (tool === taskToolName && own.listens("subagent_stop")) {
        const { agent, background } = args as { readonly agent?: unknown; readonly background?: unknown };
        // A background task has only begun; its own end calls the hooks.
        if (background === true) return pass;
        const names = { agent, outcome: error === undefined ? "ok" : "error" };
        await own.call({ event: "subagent_stop", key: tool_call_id, names, texts: { answer: text } });
      }
      return pass;
    },
  };
}
