import type { ComputePool } from "../../governance/compute/compute-pool.ts";
import type { OutgoingRequest, OutgoingRules, WholeAnswer } from "../../governance/egress/outgoing.ts";
import type { Fetch } from "../../governance/egress/sdk-fetch.ts";
import type { Secrets } from "../../governance/secret-mask.ts";
import type { TextVectors } from "../../governance/vectors/text-vectors.ts";

/** Services for tools that connect to other systems. */
export interface ToolServices {
  readonly egress: ToolEgress;
  /** Resolves `secret:NAME`. */
  readonly secrets: Pick<Secrets, "resolve">;
  /** Does work that would block the event loop. */
  readonly compute: Pick<ComputePool, "run">;
  /** Embeds the queries of searches. */
  readonly textVectors: TextVectors;
}

/** The ways to open a connection. Refused destinations and uses of credentials are audited; an abort of the call ends its requests. */
export interface ToolEgress {
  /** To hosts that spec.network of the agent and of the agents above it allow, with the agent's credentials. */
  readonly agent: Requester;
  /** To the internet; spec.network does not apply. For plugins. */
  readonly internet: Requester;
  /** To URLs of the operator's settings, also in private networks. */
  readonly operator: Requester;
}

/** Sends requests. Throws EgressBlocked for a refused destination, another error if there is no answer. */
export interface Requester {
  /** False if the lists of hosts do not admit the URL; then it is audited as refused. Addresses are judged at the connection. */
  admits(url: string): boolean;
  /** Reads at most `bytesMax` bytes of the decoded body. */
  whole(request: OutgoingRequest, bytesMax: number): Promise<WholeAnswer>;
  /** The rules, for a process of its own that opens the connections. */
  readonly rules: Pick<OutgoingRules, "allowHosts" | "onEvent">;
  /** The `fetch` for SDKs. */
  readonly fetch: Fetch;
}
