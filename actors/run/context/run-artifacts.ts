import { entryPointOf } from "../../../bus/frames/entry-points.ts";
import type { StoredOf, StoredText } from "../../../governance/controls/verdicts.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import type { ArtifactRow } from "../../../storage/tables/artifacts.ts";
import type { ArtifactPage } from "../../tools/tool.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import type { RunDeps } from "./deps.ts";
import type { RunTaint } from "./run-taint.ts";

// The artifacts of a run: long tool results that are stored apart from its log.

/** The parts of a run that its artifacts need. */
export interface ArtifactRun {
  readonly store: TenantStore;
  readonly deps: Pick<RunDeps, "artifacts" | "log">;
  readonly spec: Pick<RunSpec, "agent" | "surface" | "thread_key" | "thread_suffix" | "run_id">;
  readonly run: {
    /** The artifacts of a run without a thread, which end with it; null for none. */
    ownArtifacts: ArtifactRow[] | null;
    readonly taint: Pick<RunTaint, "sources">;
  };
}

/** True if long results of the run are stored. A single call returns its whole result to a client, which could not read an artifact. */
export function storesResults({ agent, surface }: Pick<RunSpec, "agent" | "surface">): boolean {
  return agent.artifacts !== null && entryPointOf(surface).work !== "call";
}

/** Stores a long result. On a thread it becomes visible when the returned operations are written, together with the result. */
export async function storeText(
  { store, deps, spec, run }: ArtifactRun,
  text: string,
  of: StoredOf,
): Promise<StoredText> {
  const isThreaded = spec.thread_suffix !== null;
  const { artifact, keep } = await deps.artifacts.draft(store, {
    // A call of a tainted run may repeat what the model has read.
    ...{ ...of, taint: [...new Set([...of.taint, ...run.taint.sources])], text, manifest: spec.agent.name },
    thread_key: isThreaded ? spec.thread_key : null,
  });
  if (!isThreaded) run.ownArtifacts = [...(run.ownArtifacts ?? []), artifact];
  return { artifact_id: artifact.artifact_id, ops: isThreaded ? [keep] : [] };
}

/** Reads a window of an artifact of the run's own conversation; null for any other id. */
export async function readArtifactPage(
  { store, deps, spec, run }: ArtifactRun,
  artifactId: string,
  offset: number,
  length: number | null,
): Promise<ArtifactPage | null> {
  const rules = spec.agent.artifacts;
  if (rules === null) return null;
  const found =
    spec.thread_suffix === null
      ? run.ownArtifacts?.find(({ artifact_id }) => artifact_id === artifactId)
      : await deps.artifacts.ofThread(store, artifactId, spec.thread_key);
  const text = found === undefined ? null : await deps.artifacts.text(store, found);
  if (found === undefined || text === null) return null;
  const from = startOf(text, Math.min(offset, text.length));
  const asked = Math.min(length ?? rules.default_window_chars, rules.max_window_chars);
  // A window of one unit in the middle of a pair shows the whole pair, so that every read makes progress.
  const end = Math.max(startOf(text, Math.min(from + asked, text.length)), Math.min(from + 1, text.length));
  const whole = isInPair(text, end) ? end + 1 : end;
  return { text: text.slice(from, whole), offset: from, end: whole, chars: text.length, taint: found.taint };
}

/** Deletes the artifacts of a run without a thread. The sweep retries failed deletions. */
export function endArtifacts({ store, deps, spec, run }: ArtifactRun): void {
  const own = run.ownArtifacts;
  if (own === null) return;
  run.ownArtifacts = null;
  void Promise.all(own.map((artifact) => deps.artifacts.discard(store, artifact))).catch((err: unknown) =>
    deps.log.warn(
      { err, run_id: spec.run_id },
      "artifacts of a run could not be deleted; the sweep deletes them later",
    ),
  );
}

/** Moves a position before a surrogate pair that it would split. */
function startOf(text: string, at: number): number {
  return isInPair(text, at) ? at - 1 : at;
}

/** True if the position is between the two halves of a surrogate pair. */
function isInPair(text: string, at: number): boolean {
  const before = text.charCodeAt(at - 1);
  const after = text.charCodeAt(at);
  return before >= 0xd800 && before <= 0xdbff && after >= 0xdc00 && after <= 0xdfff;
}
