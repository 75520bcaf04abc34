import { createHash } from "node:crypto";
import { SvcError } from "../../bus/errors.ts";
import { tenantSegment } from "../objects/keys.ts";
import type { ObjectStore } from "../objects/object-store.ts";
import type { SkillVersionId, StoredSkillFile } from "../tables/skills.ts";

/** Folder of the files of skills. */
const skillsFolder = "skill-library/";

/** Objects that one version writes or reads at once. */
const atOnceMax = 8;

/** Stores the files of the versions of skills as objects (decision 140). */
export class SkillFiles {
  readonly #objects: ObjectStore | null;

  /** `objects` is null if no object store is shared by all threads. */
  constructor(objects: ObjectStore | null) {
    this.#objects = objects;
  }

  /** Stores all files of a version. */
  async put(tenantId: string, of: SkillVersionId, files: ReadonlyMap<string, Uint8Array>): Promise<void> {
    const objects = this.#opened();
    await each([...files], ([path, bytes]) => objects.put(keyOf(tenantId, of, path), bytes));
  }

  /** Deletes files of a version that was not stored. */
  async delete(tenantId: string, of: SkillVersionId, paths: readonly string[]): Promise<void> {
    const objects = this.#opened();
    await each(paths, (path) => objects.delete(keyOf(tenantId, of, path)));
  }

  /** Returns the bytes of a file. Refuses with version_corrupt if they are not those that were stored. */
  async read(tenantId: string, of: SkillVersionId, { path, sha256 }: StoredSkillFile): Promise<Buffer> {
    const bytes = await this.#opened().get(keyOf(tenantId, of, path));
    if (bytes === null) throw new SvcError("version_corrupt");
    const found = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (createHash("sha256").update(found).digest("hex") !== sha256) throw new SvcError("version_corrupt");
    return found;
  }

  /** Returns all files of a version. */
  async readAll(
    tenantId: string,
    of: SkillVersionId,
    files: readonly StoredSkillFile[],
  ): Promise<ReadonlyMap<string, Buffer>> {
    const all = new Map<string, Buffer>();
    await each(files, async (file) => void all.set(file.path, await this.read(tenantId, of, file)));
    return all;
  }

  #opened(): ObjectStore {
    if (this.#objects === null) throw new SvcError("object_store_unavailable");
    return this.#objects;
  }
}

/** Returns the object key of a file. */
function keyOf(tenantId: string, { library, name, version }: SkillVersionId, path: string): string {
  const owner = library === "" ? "" : `~${library}/`;
  return `${skillsFolder}${tenantSegment(tenantId)}/${owner}${name}/${version}/${path}`;
}

async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += atOnceMax) await Promise.all(items.slice(at, at + atOnceMax).map(work));
}
