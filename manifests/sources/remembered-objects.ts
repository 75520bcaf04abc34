import type { Env } from "../../bus/env.ts";
import type { ObjectSource } from "./texts.ts";

/** Age up to which an answer is used without another request. */
const freshMs = 5_000;
/** Age up to which an answer is used while it is requested again. */
const patientMs = 60_000;
/** Age up to which an answer is used if the store fails. */
const lastingMs = 600_000;
/** Max remembered answers, with those for absent objects, and max bytes of all. */
const answersMax = 10_000;
const bytesMax = 16 * 1024 * 1024;

interface Answer {
  /** Undefined before the first answer. */
  bytes: Uint8Array | null | undefined;
  at: number;
  loading: Promise<Uint8Array | null> | null;
}

/**
 * Remembers objects of a bucket, because every turn looks for manifests and prompts, and a request takes longer than the rest of
 * its start. A change takes effect within a minute. If the bucket fails, the last answer serves for ten minutes.
 */
export function rememberedObjects(objects: ObjectSource, env: Pick<Env, "monotonic">): ObjectSource {
  const answers = new Map<string, Answer>();
  let bytesKept = 0;

  const forget = (key: string, { bytes }: Answer): void => {
    if (answers.delete(key)) bytesKept -= bytes?.length ?? 0;
  };

  const load = (key: string, answer: Answer): Promise<Uint8Array | null> => {
    answer.loading ??= objects
      .get(key)
      .then((bytes) => {
        if (answers.get(key) === answer) {
          bytesKept += (bytes?.length ?? 0) - (answer.bytes?.length ?? 0);
          answer.bytes = bytes;
          answer.at = env.monotonic();
        }
        return bytes;
      })
      .finally(() => {
        answer.loading = null;
        if (answer.bytes === undefined) forget(key, answer);
        for (const [oldest, each] of answers) {
          if (answers.size <= answersMax && bytesKept <= bytesMax) break;
          forget(oldest, each);
        }
      });
    return answer.loading;
  };

  return {
    async get(key) {
      const answer = answers.get(key) ?? { bytes: undefined, at: Number.NEGATIVE_INFINITY, loading: null };
      // Moves the key to the end: the least recently used one is forgotten first.
      answers.delete(key);
      answers.set(key, answer);
      const { bytes } = answer;
      if (bytes === undefined) return load(key, answer);
      const age = env.monotonic() - answer.at;
      if (age < freshMs) return bytes;
      const loading = load(key, answer);
      if (age < patientMs) {
        // A later request reports the failure.
        loading.catch(() => {});
        return bytes;
      }
      return loading.catch((error: unknown) => {
        if (age < lastingMs) return bytes;
        throw error;
      });
    },
    list: (prefix, limit, after) => objects.list(prefix, limit, after),
  };
}
