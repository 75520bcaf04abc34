import { type ErrorCode, errorEntry, type SvcError } from "../../bus/errors.ts";
import { type SignInDetails, signInCodes } from "../../governance/sign-in/refusal.ts";
import { jsonText, type Reply, refusal, refusalHeaders } from "../exchange/reply.ts";

/** The headers of all answers of sign-in: they carry secrets, and no page may keep them. */
export const noStore = { "cache-control": "no-store" };

/** Writes the refusal of a sign-in: {error, message, interval?, tenants?, github_login?} (document 1). */
export function signInRefusalReply(error: SvcError, requestId: string): Reply {
  if (!signInCodes.has(error.code)) return refusal(error, requestId);
  const detail = (error.details.detail ?? {}) as SignInDetails;
  const body = JSON.stringify({ error: error.code, message: errorEntry(error.code as ErrorCode).help, ...detail });
  return jsonText(body, error.status, { ...refusalHeaders(error), ...noStore });
}
