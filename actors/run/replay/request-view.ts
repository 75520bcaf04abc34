import type { ModelRequestView } from "../../../bus/protocol/run.ts";
import type { FileStore } from "../../../storage/files/file-store.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { modelCall } from "../../../storage/tables/model-calls.ts";
import { rebuildCall } from "./rebuilt-call.ts";

/** Characters of the bodies of one request that are told: what is longer is left to `svc replay`. */
const viewBytesMax = 4 * 1024 * 1024;

/** The n-th model request of a run for its operators; null when it is not on record. */
export async function requestView(
  store: TenantStore,
  files: FileStore,
  runId: string,
  n: number,
  withBodies: boolean,
): Promise<ModelRequestView | null> {
  const call = await modelCall(store, runId, n);
  if (call === undefined) return null;
  const told = { n, facts: JSON.stringify(call.facts), frame: call.frame };
  if (!withBodies) return { ...told, bodies: null };
  const { system, words, tools, answer, reply, problems } = await rebuildCall(store, files, call);
  const length = [system, words, tools, answer, reply].reduce((sum, text) => sum + (text?.length ?? 0), 0);
  const bodies =
    length <= viewBytesMax
      ? { system, messages: words, tools, answer, reply, problems }
      : {
          system: null,
          messages: null,
          tools: null,
          answer: null,
          reply: null,
          problems: [`longer than ${viewBytesMax}`],
        };
  return { ...told, bodies };
}
