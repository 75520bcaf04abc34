import type { CommercePart } from "../core/part.ts";
import { migration } from "./0016_commerce_acp_sessions.ts";
import { acpBusy, acpCompleted, acpUnset, acpVersionRefused } from "./acp-form.ts";
import { acpRoutes } from "./acp-routes.ts";
import { acpKeySetting, acpTenantSetting } from "./acp-settings.ts";
import { cutOffSessions, deleteExpiredSessions, sessionTable } from "./sessions.ts";

const everyMs = 60_000;
const sessionsPerRun = 50;

/** The Agentic Commerce Protocol. */
export const acpPart: CommercePart = {
  settings: [acpKeySetting, acpTenantSetting],
  tables: [sessionTable],
  migrations: [migration],
  routes: acpRoutes,
  errorCodes: [acpUnset, acpVersionRefused, acpBusy, acpCompleted],
  tasks: [
    {
      name: "commerce_acp_sweep",
      async run(services) {
        const { store, env, log } = services;
        for (const { tenantId, row } of await cutOffSessions(store, env.now(), sessionsPerRun)) {
          const { closeCutOff } = await import("./acp-complete.ts");
          await closeCutOff(store.tenant(tenantId), row, services).catch((error: unknown) =>
            log.warn({ err: error, session_id: row.id }, "a checkout session that was cut off stays open"),
          );
        }
        await deleteExpiredSessions(store, env.now());
        return everyMs;
      },
    },
  ],
};
