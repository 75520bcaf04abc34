import { breathe, type Env } from "../../bus/env.ts";
import type { PolicyTestAsked, PolicyTestFinding, PolicyTestResult } from "../../bus/protocol/manifests.ts";
import { decideOnRecord } from "../../governance/controls/policy-test.ts";
import type { CompiledAgent } from "../../manifests/compile/compiled.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { type AuditRow, auditPage } from "../../storage/tables/audit.ts";

// Compares a manifest with the calls that the audit has on record, before the manifest is stored.

const pageRows = 100;
const findingsMax = 100;

/** Decides about the recorded tool calls of a manifest, the newest first. */
export async function testPolicies(
  store: TenantStore,
  agent: CompiledAgent,
  { name, since, until, limit, scopes }: Omit<PolicyTestAsked, "manifest">,
  env: Env,
): Promise<PolicyTestResult> {
  const counts = { calls: 0, passed: 0, denied: 0, gated: 0, undecidable: 0 };
  const findings = new Map<string, { -readonly [K in keyof PolicyTestFinding]: PolicyTestFinding[K] }>();
  const window = { ...(since !== null && { since }), ...(until !== null && { until }) };
  let truncated = false;
  for (const event_type of ["tool_call", "policy_deny"]) {
    for (let cursor: string | null = null; ; ) {
      const page = await auditPage(store, { event_type, manifest_id: name, ...window }, cursor, pageRows);
      for (const row of page.rows) {
        const call = readCall(row);
        if (call === null) continue;
        if (counts.calls === limit) {
          truncated = true;
          break;
        }
        counts.calls++;
        const { verdict, reason } = decideOnRecord(agent, call, scopes);
        counts[verdict]++;
        if (verdict === "passed" || reason === null) continue;
        const key = JSON.stringify([call.tool, verdict, reason]);
        const known = findings.get(key);
        if (known !== undefined) known.calls++;
        else if (findings.size < findingsMax)
          findings.set(key, { tool: call.tool, verdict, reason, calls: 1, example: exampleOf(row, call) });
      }
      cursor = page.next_cursor;
      if (cursor === null || truncated) break;
      await breathe(env);
    }
  }
  return { ...counts, findings: [...findings.values()].sort((a, b) => b.calls - a.calls), truncated };
}

interface Recorded {
  readonly tool: string;
  readonly args: unknown;
  readonly tool_call_id: string;
  readonly thread_id: string;
}

/** Returns the call of an audit row; null for a row that is about no call, or whose payload was cut. */
function readCall(row: AuditRow): Recorded | null {
  try {
    const { tool, args, tool_call_id = "", thread_id = "" } = Object(JSON.parse(row.payload));
    return typeof tool === "string" && tool !== "" ? { tool, args, tool_call_id, thread_id } : null;
  } catch {
    return null;
  }
}

function exampleOf({ ts }: AuditRow, { thread_id, tool_call_id }: Recorded): PolicyTestFinding["example"] {
  return { ts, thread_id: String(thread_id), tool_call_id: String(tool_call_id) };
}
