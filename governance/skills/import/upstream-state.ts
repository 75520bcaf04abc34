import type { TenantStore } from "../../../storage/store/store.ts";
import { firstSeen, type SkillUpstreamRow } from "../../../storage/tables/skill-upstreams.ts";
import { storedSkill } from "../../../storage/tables/skills.ts";
import type { Settings } from "../../settings/settings.ts";

const dayMs = 86_400_000;
const hourMs = 3_600_000;

/** The last known state of the origin of an imported skill. */
export interface UpstreamState {
  readonly name: string;
  readonly version: string;
  readonly live_version: string | null;
  readonly origin_source: string;
  readonly origin_ref: string;
  readonly origin_commit: string | null;
  readonly upstream_commit: string | null;
  readonly upstream_tree_hash: string | null;
  readonly update_available: boolean;
  readonly first_seen_at: number | null;
  readonly eligible_at: number | null;
  readonly eligible: boolean;
  readonly checked_at: number | null;
  readonly error: string | null;
}

/** Returns when to look at an origin again; without regular looks, as soon as the setting asks for them. */
export function dueAt({ skillImportCheckHours }: Pick<Settings, "skillImportCheckHours">, now: number): number {
  return now + skillImportCheckHours * hourMs;
}

/** Returns the last known state of the origin of an imported skill. */
export async function upstreamState(
  store: TenantStore,
  row: SkillUpstreamRow,
  minAgeDays: number,
  now: number,
): Promise<UpstreamState> {
  const { name, version, origin, upstream_commit, upstream_tree_hash, checked_at, error } = row;
  const skill = await storedSkill(store, "", name);
  const seenAt =
    upstream_tree_hash === null ? undefined : await firstSeen(store, origin.repository_id, upstream_tree_hash);
  const eligibleAt = seenAt === undefined ? null : seenAt + minAgeDays * dayMs;
  return {
    ...{ name, version, live_version: skill?.live_version ?? null },
    ...{ origin_source: origin.source, origin_ref: origin.ref, origin_commit: origin.commit },
    ...{
      upstream_commit,
      upstream_tree_hash,
      update_available: upstream_tree_hash !== null && upstream_tree_hash !== row.tree_hash,
    },
    ...{ first_seen_at: seenAt ?? null, eligible_at: eligibleAt, eligible: eligibleAt !== null && eligibleAt <= now },
    ...{ checked_at, error },
  };
}
