import { type ErrorCode, errorEntry, type SvcError } from "../../bus/errors.ts";
import { jsonText, type Reply, refusal, refusalHeaders } from "../exchange/reply.ts";

/** The codes that the routes of repositories and of the code host answer in their own form. */
const ownCodes: ReadonlySet<string> = new Set([
  ...["github_not_connected", "github_connection_revoked", "github_unavailable", "repository_unreachable"],
  ...["repository_too_large", "thread_has_repository", "checkout_busy", "checkout_cloning", "checkouts_misconfigured"],
  ...["no_repository", "invalid_prefix", "listing_failed"],
]);

/** Writes a refusal of repositories: {error, message} (shapes 5). */
export function repoRefusalReply(error: SvcError, requestId: string): Reply {
  if (!ownCodes.has(error.code)) return refusal(error, requestId);
  const body = { error: error.code, message: error.sentence ?? errorEntry(error.code as ErrorCode).help };
  return jsonText(JSON.stringify(body), error.status, refusalHeaders(error));
}
