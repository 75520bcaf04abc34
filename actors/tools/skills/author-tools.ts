import { SvcError } from "../../../bus/errors.ts";
import type { AgentSkill } from "../../../governance/skills/author.ts";
import * as declared from "../../../manifests/sections/skill-tools.ts";
import { type Tool, type ToolContext, type ToolErrorCode, type ToolResult, toolError } from "../tool.ts";

// The tools that write skills. Each result is JSON, so that a model reads the state of its draft.

const timeoutMs = 60_000;

interface Written extends Pick<AgentSkill, "files"> {
  readonly name?: string;
  readonly reason?: string;
  readonly library?: AgentSkill["library"];
}

export const createSkill: Tool = {
  ...declared.createSkill,
  timeoutMs,
  execute: (written: Written, context) => write({ ...written, name: null }, context),
};

export const updateSkill: Tool = {
  ...declared.updateSkill,
  timeoutMs,
  execute: ({ name = "", ...written }: Written, context) => write({ ...written, name }, context),
};

export const submitSkillFeedback: Tool = {
  ...declared.submitSkillFeedback,
  timeoutMs,
  execute: (
    { name, body, suggested_patch = null }: { name: string; body: string; suggested_patch?: string | null },
    { skills }: ToolContext,
  ) =>
    orRefused(async () => {
      const outcome = await skills.submitFeedback({ name, body, suggested_patch });
      if (outcome.kind === "refused") return refused(outcome.error, "permission_denied");
      return { text: JSON.stringify({ ok: true, name, feedback_id: outcome.id, status: "pending" }) };
    }),
};

function write(
  { name, files, reason = "", library = "org" }: Omit<Written, "name"> & { readonly name: string | null },
  { skills }: ToolContext,
): Promise<ToolResult> {
  return orRefused(async () => {
    const outcome = await skills.write({ name, files, reason, library });
    if (outcome.kind === "refused") return refused(outcome.error, "permission_denied");
    const { row, reasons, evaluation } = outcome;
    const { version, status, quality_score, security_status } = row;
    return {
      text: JSON.stringify({
        ...{ ok: true, name: row.name, version, status, published: status === "live" },
        ...{ quality_score, security_status, ...(reasons.length > 0 && { publish_blocked: reasons }) },
        ...(evaluation !== null && { evaluation }),
      }),
    };
  });
}

async function orRefused(work: () => Promise<ToolResult>): Promise<ToolResult> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    const { code, status, details } = error;
    const kind =
      status === 404 ? "not_found" : status === 429 ? "rate_limited" : status < 500 ? "invalid_arguments" : "internal";
    return refused(code, kind, details.detail);
  }
}

function refused(error: string, code: ToolErrorCode, detail?: unknown): ToolResult {
  const more = typeof detail === "object" && detail !== null ? detail : {};
  return toolError(code, JSON.stringify({ ok: false, error, ...more }));
}
