import type { OutgoingRules } from "./outgoing.ts";

/** The records of requests. */
export interface EgressRecords {
  /** Writes an audit row `egress`. */
  audit(status: string, payload: Readonly<Record<string, unknown>>): void;
  /** Counts a refused destination. */
  count(metric: "svc_egress_blocked_total", labels: { readonly reason: string }): void;
}

/** Returns rules that audit each refused destination and each use of a credential. Refused destinations are also counted. */
export function auditedRules(rules: Omit<OutgoingRules, "onEvent">, records: EgressRecords): OutgoingRules {
  return {
    ...rules,
    onEvent({ status, ...event }) {
      const { reason } = event;
      if (reason !== undefined) records.count("svc_egress_blocked_total", { reason });
      records.audit(status, event);
    },
  };
}
