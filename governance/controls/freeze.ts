import type { Freezes } from "../freezes.ts";
import type { Control, MakeControl } from "./control.ts";
import { pass } from "./verdicts.ts";

/** Characters that a tool's name keeps of a long name of its server; the rest is a hash. */
const keptChars = 55;

/** Refuses calls of tools and MCP servers that the tenant has frozen. */
export function freeze(freezes: Freezes): MakeControl {
  return ({ agent, store }): Control => ({
    name: "policy",
    before({ tool, principal, agent: calling }) {
      const ofServer = calling.mcpServers
        .filter(({ name }) => tool.startsWith(`${name}__`.slice(0, keptChars)))
        .toSorted((a, b) => b.name.length - a.name.length)[0];
      const manifests = [agent.name, calling.name];
      const frozen = freezes.stopsCall(store.tenantId, principal.sub, manifests, tool, ofServer?.name ?? null);
      return frozen === null ? pass : { verdict: "deny", rule: "frozen", detail: `${frozen} is frozen` };
    },
  });
}
