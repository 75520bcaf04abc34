import type { Settings } from "../governance/settings/settings.ts";
import type { RequestHead } from "./exchange/request-head.ts";
import { isTls } from "./middleware/tls.ts";

/** Returns the base URL of this server, without a slash at its end: SVC_PUBLIC_URL, or the address that the request was sent to. */
export function publicUrlOf(
  head: RequestHead,
  settings: Pick<Settings, "publicUrl" | "trustedClientIpHeader">,
): string {
  if (settings.publicUrl !== "") return settings.publicUrl;
  return `${isTls(head, settings) ? "https" : "http"}://${head.headers.host ?? "localhost"}`;
}
