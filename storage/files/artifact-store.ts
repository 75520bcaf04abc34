import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { tenantSegment } from "../objects/keys.ts";
import type { ObjectStore } from "../objects/object-store.ts";
import type { Store, TenantStore, WriteOp } from "../store/store.ts";
import {
  type ArtifactRow,
  artifactOfManifest,
  artifactOfThread,
  type DroppedArtifact,
  type DroppedArtifactCursor,
  deleteArtifactOp,
  draftArtifactOp,
  droppedArtifacts,
  goneArtifacts,
  keepArtifactOp,
} from "../tables/artifacts.ts";
import { writeStored } from "../tables/stored-bytes.ts";
import { sweepDropped } from "./sweep-dropped.ts";

// Each artifact is a row and an object, written in the same order as those of a file: see file-store.ts.

/** Prefix of the object keys of all artifacts. */
export const artifactsFolder = "artifacts/";
/** Age at which a draft counts as abandoned. Longer than the longest run, because a run without a thread reads its drafts. */
const draftLifeMs = 2 * 3_600_000;
/** Max artifacts that a request deletes itself; the sweep deletes the rest. */
const promptMax = 50;
const artifactIdPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A text to store. */
export interface NewArtifact {
  readonly text: string;
  readonly manifest: string;
  readonly tool: string;
  readonly taint: readonly string[];
  /** Null for a run without a thread. */
  readonly thread_key: number | null;
}

/** An artifact whose text is stored. It becomes visible when the operation `keep` is written. */
export interface ArtifactDraft {
  readonly artifact: ArtifactRow;
  readonly keep: WriteOp;
}

/** Stores and deletes the artifacts of all tenants. */
export class ArtifactStore {
  readonly #objects: ObjectStore | null;
  readonly #env: Env;
  readonly #storedBytesMax: number;

  /**
   * `objects` is null if no object store is shared by all threads. `storedBytesMax` limits the bytes of all data of a tenant;
   * 0 means no limit.
   */
  constructor(objects: ObjectStore | null, env: Env, storedBytesMax = 0) {
    this.#objects = objects;
    this.#env = env;
    this.#storedBytesMax = storedBytesMax;
  }

  /** Stores a text. Refuses with storage_quota_exceeded, object_store_unavailable and storage_unavailable. */
  async draft(store: TenantStore, { text, ...facts }: NewArtifact): Promise<ArtifactDraft> {
    const objects = this.#opened();
    const bytes = Buffer.from(text);
    const artifact = {
      artifact_id: uuidOf(this.#env.id()),
      ...facts,
      chars: text.length,
      size_bytes: bytes.length,
      created_at: this.#env.now(),
    };
    const change = { kind: "artifacts", bytes: bytes.length } as const;
    await writeStored(store, change, this.#storedBytesMax, [draftArtifactOp(store, artifact)]);
    try {
      await objects.put(artifactKey(store.tenantId, artifact), bytes);
    } catch (error) {
      // The object may exist although the put failed.
      await this.discard(store, artifact).catch(() => {});
      throw error;
    }
    return { artifact: { ...artifact, state: "draft" }, keep: keepArtifactOp(store, artifact.artifact_id) };
  }

  /** Returns an artifact that a thread owns or shows; undefined for any other id. */
  async ofThread(store: TenantStore, artifactId: string, threadKey: number): Promise<ArtifactRow | undefined> {
    if (this.#objects === null || !isArtifactId(artifactId)) return undefined;
    return artifactOfThread(store, artifactId, threadKey);
  }

  /** Returns the text of an artifact of a manifest; null for any other id. */
  async ofManifest(store: TenantStore, artifactId: string, manifest: string): Promise<string | null> {
    if (this.#objects === null || !isArtifactId(artifactId)) return null;
    const artifact = await artifactOfManifest(store, artifactId, manifest);
    return artifact === undefined ? null : this.text(store, artifact);
  }

  /** Returns the text of an artifact; null if the object store has lost it. */
  async text(store: TenantStore, artifact: Pick<ArtifactRow, "artifact_id" | "manifest">): Promise<string | null> {
    const bytes = await this.#opened().get(artifactKey(store.tenantId, artifact));
    return bytes === null ? null : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
  }

  /** Deletes a draft, or the text and the row of a deleted artifact. */
  async discard(
    store: TenantStore,
    artifact: Pick<ArtifactRow, "artifact_id" | "manifest" | "size_bytes">,
  ): Promise<void> {
    // The object first, because the sweep finds it by its row.
    await this.#opened().delete(artifactKey(store.tenantId, artifact));
    try {
      const change = { kind: "artifacts", bytes: -artifact.size_bytes } as const;
      await writeStored(store, change, 0, [deleteArtifactOp(store, artifact.artifact_id)]);
    } catch (error) {
      // Another process has deleted the row already.
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
    }
  }

  /** Deletes the text of up to `promptMax` deleted artifacts of a tenant. The sweep deletes the rest. */
  async removeGone(store: TenantStore): Promise<void> {
    if (this.#objects === null) return;
    for (const artifact of await goneArtifacts(store, promptMax)) await this.discard(store, artifact);
  }

  /** Deletes deleted artifacts and abandoned drafts. Returns their number. Throws the first failure at the end. */
  async sweep(store: Store): Promise<number> {
    if (this.#objects === null) return 0;
    const draftsBefore = this.#env.now() - draftLifeMs;
    return sweepDropped<DroppedArtifact & DroppedArtifactCursor>({
      page: (after, limit) => droppedArtifacts(store.system, draftsBefore, after, limit),
      erase: (artifact) => this.discard(store.tenant(artifact.tenant_id), artifact),
    });
  }

  #opened(): ObjectStore {
    if (this.#objects === null) throw new SvcError("object_store_unavailable");
    return this.#objects;
  }
}

/** True if the text has the form of an artifact id. */
export function isArtifactId(text: string): boolean {
  return artifactIdPattern.test(text);
}

/** Returns the object key of an artifact. */
export function artifactKey(
  tenantId: string,
  { artifact_id, manifest }: Pick<ArtifactRow, "artifact_id" | "manifest">,
): string {
  return `${artifactsFolder}${tenantSegment(tenantId)}/${manifest}/${artifact_id}.txt`;
}

/** Spells 32 random hexadecimal digits as a UUID of version 4. */
function uuidOf(hex: string): string {
  const variant = "89ab"[Number.parseInt(hex[16] ?? "0", 16) % 4];
  const digits = `${hex.slice(0, 12)}4${hex.slice(13, 16)}${variant}${hex.slice(17)}`;
  return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join(
    "-",
  );
}
