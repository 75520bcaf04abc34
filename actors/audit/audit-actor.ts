import { breathe } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { sealNext } from "../../governance/audit-chain.ts";
import { type AuditKeys, auditKeysOf } from "../../governance/audit-keys.ts";
import { readPosition, verifyPage } from "../../governance/audit-verification.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import { defineActor } from "../runtime/define.ts";

/** Dependencies of the audit actor. */
export interface AuditDeps {
  readonly store: Store;
  readonly settings: Pick<Settings, "auditKey">;
}

interface AuditState {
  readonly store: TenantStore;
  readonly keys: AuditKeys;
}

/** Max seals that one message makes; the next message continues. */
const sealsMax = 50;

/** Seals the audit rows of one tenant, and compares them with their seals. One page is compared at a time. */
export const auditActor = defineActor<"audit", AuditState, AuditDeps>({
  kind: "audit",
  mailboxLimit: 64,
  interleaves: [],
  reserved: [],
  passivateAfterMs: 60_000,
  load: ({ key, deps }) => ({ store: deps.store.tenant(key), keys: auditKeysOf(deps.settings) }),
  idle: () => true,
  crashed: () => {},
  on: {
    async seal({ store, keys }, _body, { env }) {
      try {
        for (let seals = 0; seals < sealsMax && (await sealNext(store, keys, env.now())) > 0; seals++)
          await breathe(env);
      } catch (error) {
        // Another process has sealed these rows, or the store is not writable. The next message tries again.
        if (!["conflict", "storage_unavailable"].includes(SvcError.from(error).code)) throw error;
      }
    },

    verify({ store, keys }, { from, head }, { env }) {
      const position = from === null ? null : readPosition(from);
      if (from !== null && position === null) throw new SvcError("invalid_cursor");
      return verifyPage(store, keys, position, head, env);
    },
  },
});
