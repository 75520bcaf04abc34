import type { RunContext } from "./run-context.ts";

/** The lists of hosts that the agent has to keep to: its own, and those of the agents above it. */
export function allowHostsOf({ spec, askedBy }: RunContext): readonly (readonly string[])[] {
  const own = spec.agent.network.allowHosts;
  const above = askedBy === null ? (spec.parent?.allow_hosts ?? []) : allowHostsOf(askedBy);
  return own === null ? above : [own, ...above];
}
