import { soundText } from "../../../bus/sound-text.ts";
import type { QuarantinedOf } from "../../../governance/controls/verdicts.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { writeQuarantined } from "../../../storage/tables/quarantine.ts";
import type { RunDeps } from "./deps.ts";

/** The run whose text is withheld. */
interface QuarantiningRun {
  readonly store: TenantStore;
  readonly deps: Pick<RunDeps, "env" | "settings" | "log" | "mask">;
  /** Null for a run without a thread. */
  readonly thread_key: number | null;
  readonly threadId: string;
  readonly manifest: string;
  /** Days that the manifest allows; null for those of the settings. */
  readonly retentionDays: number | null;
}

const dayMs = 86_400_000;

/** Stores a text that the model must not read, and returns its id; null if it could not be stored. */
export async function quarantine(
  { store, deps, thread_key, threadId, manifest, retentionDays }: QuarantiningRun,
  text: string,
  { tool, tool_call_id, findings }: QuarantinedOf,
): Promise<string | null> {
  const { env, settings, log, mask } = deps;
  const id = env.id();
  const now = env.now();
  const ofSettings = settings.artifactRetentionDays;
  const days = ofSettings === 0 ? (retentionDays ?? 0) : Math.min(ofSettings, retentionDays ?? ofSettings);
  const expires_at = days === 0 ? null : now + days * dayMs;
  const content = mask.sent.text(soundText(text));
  const row = { id, created_at: now, expires_at, thread_key, thread_id: threadId, manifest_id: manifest };
  try {
    await writeQuarantined(store, { ...row, tool, tool_call_id, findings, content }, settings.tenantStoredBytes);
    return id;
  } catch (err) {
    log.warn({ err, tool, manifest_id: manifest }, "a quarantined result could not be stored");
    return null;
  }
}
