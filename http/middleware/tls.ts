import { trimBlanks } from "../../bus/blanks.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { RequestHead } from "../exchange/request-head.ts";

/** Whether the client speaks TLS. Only behind a proxy that is trusted can a request have come over it. */
export function isTls({ headers }: RequestHead, settings: Pick<Settings, "trustedClientIpHeader">): boolean {
  if (settings.trustedClientIpHeader === "") return false;
  const forwarded = headers["x-forwarded-proto"] ?? "";
  return trimBlanks(forwarded.split(",").at(-1) ?? "").toLowerCase() === "https";
}
