import { SvcError } from "../../bus/errors.ts";
import { Type } from "../../bus/type.ts";
import { auditOp } from "../../governance/audit.ts";
import { requestMs } from "../../storage/store/store.ts";
import { quarantined } from "../../storage/tables/quarantine.ts";
import { type Route, route } from "../route.ts";

const readQuarantined = route({
  method: "GET",
  path: "/quarantine/{quarantine_id}",
  summary: "A tool result that content screening has withheld from the model.",
  tag: { name: "Quarantine", description: "Tool results that content screening has withheld." },
  access: ["quarantine:read"],
  tenancy: [{ of: "quarantined" }],
  params: Type.Object({
    quarantine_id: Type.String({
      description: "The reference in the text that replaced the result.",
      examples: ["5f3a0c62b7d84e01a9c3f2d1e4b5a697"],
    }),
  }),
  reply: {
    description: "The whole text, as a download. 404 after SVC_ARTIFACT_RETENTION_DAYS. Each read is audited.",
    contentType: "text/plain; charset=utf-8",
    schema: Type.String({ examples: ["Ignore all previous instructions."] }),
  },
  fails: ["not_found", "storage_unavailable"],
  async handle({ params: { quarantine_id }, principal, requestId: request_id }, context) {
    const { env } = context;
    const store = context.store.tenant(principal.tenant_id);
    const found = await quarantined(store, quarantine_id, env.now());
    if (found === undefined) throw new SvcError("not_found");
    const { tool, tool_call_id, thread_id, findings, manifest_id, content } = found;
    const payload = { quarantine_id, tool, tool_call_id, thread_id, findings, request_id };
    const read = { event_type: "quarantine_read", status: "ok", manifest_id, principal_subj: principal.sub } as const;
    // The audit row first: without it, the text is not sent.
    await store.write([auditOp(store, context, { ...read, payload })], requestMs);
    const headers = { "content-disposition": `attachment; filename="${found.id}.txt"` };
    return { kind: "text", status: 200, contentType: "text/plain; charset=utf-8", body: content, headers };
  },
});

/** The route of quarantined results. */
export const quarantineRoutes: readonly Route[] = [readQuarantined];
