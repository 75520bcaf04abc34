import type { SubmitTurn } from "../../../bus/protocol/run.ts";
import { AgentMetrics } from "../../../governance/agent-metrics.ts";
import type { AuditType } from "../../../governance/audit-types.ts";
import { recordDenial } from "../../../governance/controls/denial.ts";
import { admitInput } from "../../../governance/controls/input.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { RunDeps } from "../context/deps.ts";
import type { Intake } from "./intake.ts";

/**
 * Passes the caller's messages through the input controls, and returns the intake with the texts that they allow. Refuses with
 * content_screening_denied.
 */
export async function screenedInput(
  intake: Intake,
  { principal, request_id }: SubmitTurn,
  agent: CompiledAgent,
  threadId: string,
  { inputControls, metrics, audit }: RunDeps,
): Promise<Intake> {
  const controls = inputControls.flatMap((make) => make(agent) ?? []);
  if (controls.length === 0) return intake;
  const records = {
    metrics: new AgentMetrics(metrics, agent),
    audit(event_type: AuditType, status: string, payload: Readonly<Record<string, unknown>>): void {
      const row = { event_type, status, manifest_id: agent.name, principal_subj: principal.sub };
      audit.record(principal.tenant_id, { ...row, payload: { ...payload, thread_id: threadId, request_id } });
    },
  };
  const entries = [...intake.entries];
  for (const [at, entry] of entries.entries()) {
    // The controls of tool results check the results of a client's tools.
    if (entry.kind !== "message" || intake.results.has(entry)) continue;
    const input = { text: entry.content, agent, principal };
    const content = await admitInput(controls, input, (denial) => recordDenial(denial, null, records));
    if (content !== entry.content) entries[at] = { ...entry, content };
  }
  const userText = entries.findLast(({ role }) => role === "user")?.content ?? null;
  return { ...intake, entries, userText };
}
