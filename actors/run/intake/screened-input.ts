import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import { AgentMetrics } from "../../../governance/agent-metrics.ts";
import type { AuditType } from "../../../governance/audit-types.ts";
import { recordDenial } from "../../../governance/controls/denial.ts";
import { admitInput } from "../../../governance/controls/input.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { RunDeps } from "../context/deps.ts";
import type { Intake } from "./intake.ts";

/** Passes a text of the caller through the input controls, and returns what they allow. Refuses with content_screening_denied. */
type Screen = (text: string) => Promise<string>;

/** Returns the input controls of the agent as one function; null if it has none. */
export function inputScreen(
  { principal, request_id }: SubmitTurn,
  agent: CompiledAgent,
  threadId: string,
  { inputControls, metrics, audit }: Pick<RunDeps, "inputControls" | "metrics" | "audit">,
): Screen | null {
  const controls = inputControls.flatMap((make) => make(agent) ?? []);
  if (controls.length === 0) return null;
  const records = {
    metrics: new AgentMetrics(metrics, agent),
    audit(event_type: AuditType, status: string, payload: Readonly<Record<string, unknown>>): void {
      const row = { event_type, status, manifest_id: agent.name, principal_subj: principal.sub };
      audit.record(principal.tenant_id, { ...row, payload: { ...payload, thread_id: threadId, request_id } });
    },
  };
  return (text) => admitInput(controls, { text, agent, principal }, (denial) => recordDenial(denial, null, records));
}

/**
 * Passes the caller's messages through the input controls, and returns the intake with the texts that they allow. Refuses with
 * content_screening_denied.
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
