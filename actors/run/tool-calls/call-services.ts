import type { EgressPolicy } from "../../../governance/egress/address.ts";
import { auditedRules } from "../../../governance/egress/audited-rules.ts";
import {
  type OutgoingRequest,
  type OutgoingRules,
  placeOf,
  type WholeAnswer,
} from "../../../governance/egress/outgoing.ts";
import { type Fetch, fetchWith } from "../../../governance/egress/sdk-fetch.ts";
import { admitsHost } from "../../../manifests/hosts.ts";
import type { Requester, ToolEgress, ToolServices } from "../../tools/services.ts";
import { allowHostsOf } from "../context/allowed-hosts.ts";
import type { RunContext } from "../context/run-context.ts";

/** The services of one tool call. */
export class CallServices implements ToolServices, ToolEgress {
  readonly #runContext: RunContext;
  readonly #call: CallPlace;

  constructor(runContext: RunContext, call: CallPlace) {
    this.#runContext = runContext;
    this.#call = call;
  }

  get egress(): ToolEgress {
    return this;
  }

  get secrets(): ToolServices["secrets"] {
    return this.#runContext.deps.secrets;
  }

  get compute(): ToolServices["compute"] {
    return this.#runContext.deps.compute;
  }

  get textVectors(): ToolServices["textVectors"] {
    return this.#runContext.deps.textVectors;
  }

  get agent(): Requester {
    const { credentials } = this.#runContext.spec.agent.network;
    return this.#requester("public", allowHostsOf(this.#runContext), credentials);
  }

  get internet(): Requester {
    return this.#requester("public", [], []);
  }

  get operator(): Requester {
    return this.#requester("operator", [], []);
  }

  #requester(
    policy: EgressPolicy,
    allowHosts: OutgoingRules["allowHosts"],
    credentials: readonly string[],
  ): CallRequester {
    const { metrics, spec } = this.#runContext;
    const rules = { tenantId: spec.principal.tenant_id, policy, allowHosts, credentials };
    const records = {
      count: metrics.count.bind(metrics),
      audit: (status: string, event: object) =>
        this.#runContext.audit("egress", status, { ...event, tool_call_id: this.#call.id }),
    };
    return new CallRequester(this.#runContext, this.#call, auditedRules(rules, records));
  }
}

/** The tool call that sends the requests. Its signal ends them. */
interface CallPlace {
  readonly id: string;
  readonly signal: AbortSignal;
}

class CallRequester implements Requester {
  readonly fetch: Fetch;
  readonly #runContext: RunContext;
  readonly #call: CallPlace;
  readonly rules: OutgoingRules;

  constructor(runContext: RunContext, call: CallPlace, rules: OutgoingRules) {
    this.#runContext = runContext;
    this.#call = call;
    this.rules = rules;
    const send = fetchWith(runContext.deps.outgoing, rules);
    this.fetch = (input, init) => send(input, { signal: call.signal, ...init });
  }

  admits(url: string): boolean {
    const target = URL.parse(url);
    if (target === null) return false;
    if (this.rules.allowHosts.every((list) => admitsHost(list, target.hostname))) return true;
    this.rules.onEvent({ status: "blocked", ...placeOf(target), reason: "host" });
    return false;
  }

  whole(request: OutgoingRequest, bytesMax: number): Promise<WholeAnswer> {
    const { outgoing } = this.#runContext.deps;
    return outgoing.whole(this.rules, { signal: this.#call.signal, ...request }, bytesMax);
  }
}
