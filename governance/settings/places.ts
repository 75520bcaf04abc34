import { errorText } from "./problem-lines.ts";
import type { Settings } from "./settings.ts";
import { storeConfigOf } from "./store-config.ts";

/** A resource that the server cannot start without, and the setting that names it. */
interface Place {
  readonly setting: string;
  readonly path: string;
}

/** The data directory of the process. */
export function dataPlace({ dataDir }: Settings): Place {
  return { setting: "SVC_DATA_DIR", path: dataDir };
}

/** The file of the SQLite database, or the host of the Postgres one. */
export function databasePlace(settings: Settings): Place {
  const config = storeConfigOf(settings);
  const path = config.engine === "sqlite" ? config.path : (URL.parse(config.postgres.url)?.host ?? "");
  return { setting: settings.databaseUrl === "" ? "SVC_DATA_DIR" : "SVC_DATABASE_URL", path };
}

/** The directory or the bucket of the object store. */
export function objectsPlace({ objectStore, objectStorePath, s3Bucket, gcsBucket, fromEnvironment }: Settings): Place {
  if (objectStore === "s3") return { setting: "SVC_S3_BUCKET", path: s3Bucket };
  if (objectStore === "gcs") return { setting: "SVC_GCS_BUCKET", path: gcsBucket };
  const isNamed = fromEnvironment.includes("SVC_OBJECT_STORE_PATH");
  return { setting: isNamed ? "SVC_OBJECT_STORE_PATH" : "SVC_DATA_DIR", path: objectStorePath };
}

/** Runs `work` on a resource. An error names the setting and the path or host. */
export async function atPlace<T>({ setting, path }: Place, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const reason = errorText(error);
    throw new Error(`${setting}: ${reason.includes(path) ? "" : `${path}: `}${reason}`, { cause: error });
  }
}
