import type { ModelRequestView } from "../../../bus/protocol/run.ts";
import type { FileStore } from "../../../storage/files/file-store.ts";
import type { TenantStore } from "../../../storage/store/store.ts";
import { modelCall } from "../../../storage/tables/model-calls.ts";
import { rebuildCall } from "./rebuilt-call.ts";

/** Max characters of the bodies in one view; longer ones are available from `svc replay`. */
const viewBytesMax = 4 * 1024 * 1024;

/** Returns the n-th model request of a run for operators; null if it is not recorded. */
export async function requestView(
  store: TenantStore,
  files: FileStore,
  runId: string,
  n: number,
  withBodies: boolean,
): Promise<ModelRequestView | null> {
  const call = await modelCall(store, runId, n);
  if (call === undefined) return null;
  const view = { n, facts: JSON.stringify(call.facts), frame: call.frame };
  if (!withBodies) return { ...view, bodies: null };
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
  return { ...view, bodies };
}
