import { closed, list, toolName } from "../fields/fields.ts";
import { credential, timeoutMs, urlText } from "../fields/remote.ts";
import { type Rule, unique } from "../fields/rules.ts";
import { defineSection, type SpecOf } from "../fields/section.ts";
import type { ToolSpec } from "../registries.ts";
import { type LimitsSpec, limitBounds } from "./limits.ts";
import { type NetworkSpec, urlRules } from "./network.ts";
import { notInMulti, type PatternSpec } from "./pattern.ts";

const fields = {
  peers: list(
    "External agents, each with the tool peer__<name>.",
    closed("One agent.", {
      name: toolName("Last part of the tool's name."),
      url: urlText("Its A2A endpoint."),
      auth: credential(),
      timeout_ms: timeoutMs("Timeout of one call; null is 60 seconds."),
    }),
  ),
};

type Spec = SpecOf<typeof fields> & PatternSpec & NetworkSpec & LimitsSpec;

/** A tool that asks an external agent. */
export type PeerTool = ToolSpec & {
  /** The name in the manifest. */
  readonly peer: string;
  readonly url: string;
  /** A credential or its reference; null for none. */
  readonly auth: string | null;
  readonly timeoutMs: number;
  /** Max agents in a chain of calls. */
  readonly hopsMax: number;
};

const rules: readonly Rule<Spec>[] = [notInMulti("peers"), unique("peers", "name"), ...urlRules("peers", "url")];

export const peers = defineSection({
  fields,
  rules,
  binds: (spec: Spec) => spec.peers.map((peer, at) => ({ loc: ["spec", "peers", at], tool: compiled(peer, spec) })),
  compile: (spec: Spec) => ({
    peers: new Map(spec.peers.map((peer) => [toolNameOf(peer), compiled(peer, spec)])) as ReadonlyMap<string, PeerTool>,
  }),
});

function toolNameOf({ name }: Spec["peers"][number]): string {
  return `peer__${name}`;
}

function compiled(peer: Spec["peers"][number], { network, limits }: Spec): PeerTool {
  const { name, url, auth, timeout_ms } = peer;
  const message = {
    type: "string",
    minLength: 1,
    maxLength: 65_536,
    description: "The question or order, with all it needs to know.",
  };
  const manifest = {
    type: "string",
    minLength: 1,
    maxLength: 128,
    description: "Name of another agent of that server; absent for its usual one.",
  };
  return {
    name: toolNameOf(peer),
    description: `Asks the external agent ${name} and returns its answer.`,
    parameters: {
      type: "object",
      // With a list of hosts the operator decides which agents are asked, not the model.
      properties: { message, ...(network.allow_hosts === null && { manifest }) },
      required: ["message"],
      additionalProperties: false,
    },
    effect: "once",
    risk: "speaks",
    workspace: false,
    peer: name,
    url,
    auth,
    timeoutMs: timeout_ms ?? 60_000,
    hopsMax: limits.max_peer_hops ?? limitBounds.max_peer_hops.unset,
  };
}
