import type { RunContext } from "./run-context.ts";

/** The allow_hosts lists that bind the agent: its own, and those of the agents above it. Each list must allow a host. */
export function allowHostsOf({ spec, askedBy }: RunContext): readonly (readonly string[])[] {
  const own = spec.agent.network.allowHosts;
  const above = askedBy === null ? (spec.parent?.allow_hosts ?? []) : allowHostsOf(askedBy);
  return own === null ? above : [own, ...above];
}
