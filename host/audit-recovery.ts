import { createHash } from "node:crypto";
import { entryPointOf } from "../bus/frames/entry-points.ts";
import { type AuditType, auditTypeName } from "../governance/audit-types.ts";
import { auditedAs, type ControlName } from "../governance/controls/order.ts";
import type { SecretMask } from "../governance/secret-mask.ts";
import type { Store, TenantStore } from "../storage/store/store.ts";
import { lastNewsOf, type RunOfGone, runsSince } from "../storage/tables/abandoned-runs.ts";
import { auditExport, insertAuditOp } from "../storage/tables/audit.ts";
import { type LogEvent, readEventsBefore } from "../storage/tables/events.ts";
import type { Gone } from "../storage/tables/hosts.ts";

// Audit rows wait in memory for SVC_AUDIT_FLUSH_SECONDS, and a killed process loses those of its last interval. The log of its runs is
// durable and tells of turns, calls and denials. Recovery compares both for the time before the death and writes the rows that are
// missing (decisions 117 and 190). A restored row has an id made from its run and event, so a repeated recovery writes it once.

/** Rows may have waited this much longer than the interval. */
const lateMs = 5_000;
/** Max milliseconds between an audit row and its event. */
const apartMs = 60_000;
/** The interval of the periodic task flush_audit, which writes the rows if the setting is 0. */
const taskMs = 60_000;
const pageRows = 200;
/** Max characters of a message in the audit. */
const auditMax = 2_000;

/** The mask of the rows, and the time that they wait in memory. */
export interface AuditRecovery {
  readonly mask: SecretMask;
  /** SVC_AUDIT_FLUSH_SECONDS. */
  readonly flushSeconds: number;
}

interface Told {
  readonly event_type: AuditType;
  readonly status: string;
  readonly ts: number;
  /** Distinguishes the rows of a run. */
  readonly place: string;
  readonly principal_subj: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

const told: ReadonlySet<string> = new Set(["user_input", "tool_call", "policy_deny", "final_response"]);

/** Writes the audit rows that dead processes had not written, as far as the logs of their runs tell them. Returns their number. */
export async function restoreAudit(store: Store, gone: Gone, { mask, flushSeconds }: AuditRecovery): Promise<number> {
  const last = await lastNewsOf(store.system, gone);
  if (last === undefined) return 0;
  const since = last - (flushSeconds === 0 ? taskMs : flushSeconds * 1000) - lateMs;
  let written = 0;
  for await (const page of runsSince(store.system, gone, since, pageRows))
    for (const [tenantId, runs] of Map.groupBy(page, ({ tenant_id }) => tenant_id))
      written += await restore(store.tenant(tenantId), runs, since, mask);
  return written;
}

async function restore(
  store: TenantStore,
  runs: readonly RunOfGone[],
  since: number,
  mask: SecretMask,
): Promise<number> {
  const audited = await countAudited(store, runs, since - apartMs);
  let written = 0;
  for (const run of runs) {
    const rows = await toldBy(store, run, since);
    const missing = [...Map.groupBy(rows, (row) => keyOf(run, row)).entries()].flatMap(([key, same]) =>
      // The process lost its newest rows.
      same.slice(audited.get(key) ?? 0),
    );
    const ops = missing.map(({ event_type, status, ts, place, principal_subj, payload }) => {
      const { request_id } = run.asked;
      const text = { ...payload, thread_id: threadId(run), request_id, restored: true };
      const id = createHash("sha256").update(`${run.run_id} ${event_type} ${place}`).digest("hex").slice(0, 32);
      return insertAuditOp(store, {
        ...{ id, ts, event_type: auditTypeName(event_type), status, manifest_id: run.manifest, principal_subj },
        payload: mask.recorded.jsonText(JSON.stringify(text)),
      });
    });
    for (let at = 0; at < ops.length; at += 100) await store.write(ops.slice(at, at + 100));
    written += ops.length;
  }
  return written;
}

/** Counts the stored audit rows of some runs since a time. */
async function countAudited(
  store: TenantStore,
  runs: readonly RunOfGone[],
  since: number,
): Promise<Map<string, number>> {
  const threads = new Set(runs.map(threadId));
  const counts = new Map<string, number>();
  for await (const rows of auditExport(store, { since: Math.max(since, 0) }))
    for (const { event_type, payload } of rows) {
      if (!told.has(event_type)) continue;
      const { thread_id, request_id, tool_call_id = "" } = Object(parsed(payload)) as Record<string, unknown>;
      if (!threads.has(thread_id as string)) continue;
      const key = JSON.stringify([thread_id, request_id, event_type, tool_call_id]);
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
  return counts;
}

function parsed(payload: string): unknown {
  try {
    return JSON.parse(payload);
  } catch {
    // Masking has cut through the JSON.
    return null;
  }
}

function keyOf(run: RunOfGone, { event_type, payload }: Told): string {
  return JSON.stringify([threadId(run), run.asked.request_id, auditTypeName(event_type), payload.tool_call_id ?? ""]);
}

function threadId({ tenant_id, suffix }: RunOfGone): string {
  return `${tenant_id}:${suffix}`;
}

/** Returns the rows of a run that its log tells of since a time, oldest first. */
async function toldBy(store: TenantStore, run: RunOfGone, since: number): Promise<Told[]> {
  const events = await eventsOf(store, run, since);
  const begun = new Set(events.flatMap(({ kind, extra }) => (kind === "tool_call" ? [extra?.tool_call_id] : [])));
  const rows: Told[] = [];
  const step = firstStep(run, events);
  const first = events.findLast(({ role, kind, seq }) => kind === "message" && role === "user" && seq < step);
  for (const event of events) {
    if (event === first || isSteer(event)) rows.push(inputTold(run, event));
    // The caller brought the results before the first step. Their calls have rows of an earlier run.
    if (event.kind === "tool_result" && event.seq > step)
      rows.push(...callTold(run, event, begun.has(event.extra?.tool_call_id)));
  }
  const end = endTold(run, events);
  return end === null ? rows : [...rows, end];
}

/** Returns the number of the first of these events that the run itself wrote. */
function firstStep({ first_seq }: RunOfGone, events: readonly LogEvent[]): number {
  if (events[0]?.seq !== first_seq) return 0;
  return events.find(({ kind, role }) => kind === "tool_call" || role === "assistant")?.seq ?? Number.MAX_SAFE_INTEGER;
}

function isSteer({ kind, role, extra }: LogEvent): boolean {
  const type = extra?.metadata?.type;
  return kind === "message" && role === "user" && (type === "steer" || type === "follow_up");
}

function inputTold(run: RunOfGone, event: LogEvent): Told {
  return {
    event_type: "user_input",
    status: "ok",
    ts: event.ts,
    place: String(event.seq),
    // The log does not name the sender of a steer.
    principal_subj: isSteer(event) ? "" : run.asked.principal.sub,
    payload: { user_input: event.content.slice(0, auditMax) },
  };
}

/** Texts of results that svc wrote for calls it did not make; these have no row. */
const unmade = /^\[tool error\/interrupted\] (not run:|outcome unknown:|not answered by the client)/;

function callTold({ asked }: RunOfGone, event: LogEvent, isBegun: boolean): Told[] {
  const { name = "", tool_call_id = "", metadata } = event.extra ?? {};
  if (unmade.test(event.content)) return [];
  const of = { ts: event.ts, place: String(event.seq), principal_subj: asked.principal.sub };
  const call = { tool: name, tool_call_id };
  const isDenied = metadata?.status === "denied";
  const rows: Told[] = [];
  if (!isDenied || isBegun) {
    const error_code = isDenied ? undefined : /^\[tool error\/(\w+)\]/.exec(event.content)?.[1];
    const status = metadata?.status === "error" ? "error" : "ok";
    rows.push({ ...of, event_type: "tool_call", status, payload: { ...call, ...(error_code && { error_code }) } });
  }
  if (isDenied) {
    const spoken = (metadata?.controls ?? []) as readonly { readonly control: ControlName; readonly verdict: string }[];
    const layer = spoken.findLast(({ verdict }) => verdict === "deny" || verdict === "block")?.control ?? "approvals";
    const payload = { ...call, control: auditedAs[layer], layer, reason: event.content.slice(0, auditMax) };
    rows.push({ ...of, event_type: "policy_deny", status: "denied", payload });
  }
  return rows;
}

/** Labels of ends at which a turn writes its row; a run that was refused or closed by a recovery writes none. */
const ends: ReadonlySet<string | null> = new Set([null, "aborted", "tool_failed", "model_failed", "limited"]);

function endTold({ asked, result, status, started_at, ended_at }: RunOfGone, events: readonly LogEvent[]): Told | null {
  if (ended_at === null || result === null || !ends.has(result.error)) return null;
  if (!["turn", "continuation"].includes(entryPointOf(asked.surface).work)) return null;
  const reply = events.findLast(({ kind, role }) => kind === "message" && role === "assistant");
  return {
    event_type: "final_response",
    status: status === "completed" ? "ok" : "error",
    ts: ended_at,
    place: "end",
    principal_subj: asked.principal.sub,
    payload: {
      chars: reply?.content.length ?? 0,
      stop_reason: result.stop_reason,
      model: reply?.extra?.metadata?.model ?? null,
      latency_ms: ended_at - started_at,
    },
  };
}

/** Returns the events of a run since a time, oldest first. */
async function eventsOf(
  store: TenantStore,
  { thread_key, first_seq, last_seq, next_seq }: RunOfGone,
  since: number,
): Promise<LogEvent[]> {
  const events: LogEvent[] = [];
  if (thread_key === null || first_seq === null) return events;
  for (let before = last_seq === null ? next_seq : last_seq + 1; before > first_seq; ) {
    const page = await readEventsBefore(store, thread_key, before);
    const own = page.filter(({ seq, ts }) => seq >= first_seq && ts >= since);
    events.push(...own);
    if (own.length < page.length || page.length === 0) break;
    before = page.at(-1)?.seq ?? 0;
  }
  return events.reverse();
}
