import type { Metrics } from "../../governance/metrics.ts";
import type { CallObserver } from "./call.ts";

/** Returns an observer that counts model calls in the metrics. */
export function callObserver(metrics: Pick<Metrics, "count" | "observe">): CallObserver {
  return {
    finished: (route, outcome, seconds) =>
      metrics.observe("svc_model_call_seconds", { model: route.id, status: outcome }, seconds),
    retried: (route, status) =>
      metrics.count("svc_model_retry_total", { provider: route.provider, status: String(status) }),
    timedOut: (route) => metrics.count("svc_model_timeout_total", { provider: route.provider }),
    switched: (from, to) =>
      metrics.count("svc_model_switch_total", { from: from.id, to: to.id, reason: "provider_error" }),
  };
}
