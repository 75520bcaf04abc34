import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import { AgentMetrics } from "../../../governance/agent-metrics.ts";
import type { GovernedEntry, Questions } from "../../../governance/controls/control.ts";
import { admitInput, type InputRecords } from "../../../governance/controls/input.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { RunDeps } from "../context/deps.ts";
import type { Intake } from "./intake.ts";

/** Passes a text of the caller through the input controls, and returns what they allow. Refuses as `admitInput` does. */
export type Screen = (text: string) => Promise<string>;

/** Returns the input controls of the agent as one function; null if it has none. */
export function inputScreen(
  { principal, request_id, call }: Pick<SubmitTurn, "principal" | "request_id"> & Pick<Partial<SubmitTurn>, "call">,
  agent: CompiledAgent,
  threadId: string,
  models: Questions | null,
  deps: Pick<RunDeps, "inputControls" | "metrics" | "audit" | "compute" | "detectors">,
): Screen | null {
  const metrics = new AgentMetrics(deps.metrics, agent);
  const surface = call === undefined ? "turn" : "tool_arguments";
  const { compute, detectors } = deps;
  const entry: GovernedEntry = { agent, principal, surface, metrics, compute, detectors, models };
  const controls = deps.inputControls.flatMap((make) => make(entry) ?? []);
  if (controls.length === 0) return null;
  const records: InputRecords = {
    ...{ metrics, surface },
    audit(event_type, status, payload): void {
      const row = { event_type, status, manifest_id: agent.name, principal_subj: principal.sub };
      deps.audit.record(principal.tenant_id, { ...row, payload: { ...payload, thread_id: threadId, request_id } });
    },
  };
  return (text) => admitInput(controls, { text, agent, principal }, records);
}

/**
 * Passes the caller's messages through the input controls, and returns the intake with the texts that they allow. Refuses as
 * `admitInput` does.
 */
export async function screenedInput(intake: Intake, screen: Screen): Promise<Intake> {
  const entries = [...intake.entries];
  for (const [at, entry] of entries.entries()) {
    // The controls of tool results check the results of a client's tools.
    if (entry.kind !== "message" || intake.results.has(entry)) continue;
    const content = await screen(entry.content);
    if (content !== entry.content) entries[at] = { ...entry, content };
  }
  const userText = entries.findLast(({ role }) => role === "user")?.content ?? null;
  return { ...intake, entries, userText };
}
