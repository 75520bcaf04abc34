import { trimBlanks } from "../../bus/blanks.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { RequestHead } from "../exchange/request-head.ts";

/** True if the client used TLS. svc itself serves plain HTTP, so only a trusted proxy can report it. */
export function isTls({ headers }: RequestHead, settings: Pick<Settings, "trustedClientIpHeader">): boolean {
  if (settings.trustedClientIpHeader === "") return false;
  const forwarded = headers["x-forwarded-proto"] ?? "";
  return trimBlanks(forwarded.split(",").at(-1) ?? "").toLowerCase() === "https";
}
