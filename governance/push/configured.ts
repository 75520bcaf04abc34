import type { Settings } from "../settings/settings.ts";

/** True if the server sends push notifications: both its key and its contact are set. */
export function sendsPush({
  pushVapidPrivateKey,
  pushVapidSubject,
}: Pick<Settings, "pushVapidPrivateKey" | "pushVapidSubject">): boolean {
  return pushVapidPrivateKey !== null && pushVapidSubject !== "";
}
