import { createHash, timingSafeEqual } from "node:crypto";
import { type PluginErrorCode, SvcError } from "../../../bus/errors.ts";
import type { Principal } from "../../../bus/protocol/principal.ts";
import { settingOf } from "../../../governance/settings/settings.ts";
import type { HttpContext } from "../../../http/context.ts";
import { json, type Reply, refusalHeaders } from "../../../http/exchange/reply.ts";
import type { RouteRequest } from "../../../http/route.ts";
import { acpKeySetting, acpTenantSetting } from "./acp-settings.ts";

// The form of the Agentic Commerce Protocol: its bearer, its version and its error objects (shapes.md 11.1).

/** The version that svc speaks (decision 276). */
const acpVersion = "2025-09-29";

/** The protocol is off. */
export const acpUnset: PluginErrorCode = {
  code: "acp_not_configured",
  status: 503,
  help: "The server has no ACP_API_KEY.",
};
/** Another version is asked for. */
export const acpVersionRefused: PluginErrorCode = {
  code: "unsupported_version",
  status: 400,
  help: `The server speaks the version ${acpVersion} of the protocol.`,
};
/** Another request completes the session. */
export const acpBusy: PluginErrorCode = {
  code: "session_in_progress",
  status: 409,
  retryable: true,
  help: "Another request completes the session.",
};
/** A completed session cannot be canceled. */
export const acpCompleted: PluginErrorCode = {
  code: "session_completed",
  status: 405,
  help: "The session is completed.",
};

/** Codes of the protocol for those of svc. */
const codes: Readonly<Record<string, string>> = {
  acp_not_configured: "not_configured",
  invalid_request: "invalid",
  invalid_json: "invalid",
};

/** Returns the principal of the protocol's callers: the merchant's tenant. Refuses with acp_not_configured, unauthorized and unsupported_version. */
export function admitAcp(
  { head }: RouteRequest<unknown, unknown, unknown>["exchange"],
  { settings }: HttpContext,
): Principal {
  const key = settingOf(settings, acpKeySetting);
  if (key === "") throw new SvcError(acpUnset);
  const [scheme = "", given = ""] = (head.headers.authorization ?? "").split(" ");
  if (scheme.toLowerCase() !== "bearer" || !isSame(given, key))
    throw new SvcError("unauthorized", { reason: "invalid_credentials" });
  const version = head.headers["api-version"];
  if (version !== undefined && version !== acpVersion) throw new SvcError(acpVersionRefused);
  return { tenant_id: settingOf(settings, acpTenantSetting), sub: "acp", scopes: [], scheme: "acp", issuer: "" };
}

function isSame(given: string, key: string): boolean {
  const digest = (value: string): Buffer => createHash("sha256").update(value).digest();
  return timingSafeEqual(digest(given), digest(key));
}

/** Returns a refusal as an error object of the protocol. */
export function acpRefusal(error: SvcError, requestId: string): Reply {
  const code = codes[error.code] ?? error.code;
  const { status, details } = error;
  const shown = status === 422 ? 400 : status;
  const isOurs = status >= 500;
  const message = error.sentence ?? (isOurs ? `${code} (request ${requestId})` : code);
  const param = paramOf(details.detail);
  const body = { type: "invalid_request", code, message, ...(param !== null && { param }) };
  return json(body, shown, refusalHeaders(error));
}

/** Returns the JSON path of the first invalid field; null if none is named. */
function paramOf(detail: unknown): string | null {
  const [first] = Array.isArray(detail) ? (detail as { readonly loc?: readonly (string | number)[] }[]) : [];
  const [, ...path] = first?.loc ?? [];
  if (path.length === 0) return null;
  return `$${path.map((name) => (typeof name === "number" ? `[${name}]` : `.${name}`)).join("")}`;
}
