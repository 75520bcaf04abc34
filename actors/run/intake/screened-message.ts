import { SvcError } from "../../../bus/errors.ts";
import type { ScreenedText, ScreenText } from "../../../bus/protocol/run.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import { requestMs, type TenantStore } from "../../../storage/store/store.ts";
import { type QueuedInput, queuedHeads, queuedInputs, rewriteInputOp } from "../../../storage/tables/queued-inputs.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import type { RunDeps } from "../context/deps.ts";
import type { EntryQuestions } from "./entry-questions.ts";
import { inputScreen, type Screen } from "./screened-input.ts";

// Messages that reach a run outside of a turn: steers, follow-ups and entries of clients. Their agent is that of the thread. A run screens
// those that were queued before its thread had its manifest.

/** The part of a thread that questions about a message need. */
export interface MessageEntry {
  readonly agent: CompiledAgent;
  readonly store: TenantStore;
  readonly thread: { readonly thread_key: number; readonly next_seq: number };
  readonly threadId: string;
}

/**
 * Screens a message to a thread, or to the run of `ownAgent`, which has no thread. Refuses as the input controls of the agent do.
 */
export async function screenedMessage(
  { principal, request_id, text, thread_suffix }: ScreenText,
  ownAgent: CompiledAgent | null,
  modelsFor: (entry: MessageEntry) => EntryQuestions & { settle(): Promise<void> },
  deps: RunDeps,
): Promise<ScreenedText> {
  const { tenant_id } = principal;
  const store = deps.store.tenant(tenant_id);
  const sender = { principal, request_id };
  if (ownAgent !== null) {
    const models = modelsFor({ agent: ownAgent, store, thread: { thread_key: -1, next_seq: 0 }, threadId: "" });
    return {
      text: await screenedBy(text, inputScreen(sender, ownAgent, "", models, deps), models),
      manifest: ownAgent.name,
    };
  }
  const row = await threadBySuffix(store, thread_suffix);
  if (row === undefined || row.manifest === null || deps.inputControls.length === 0)
    return { text, manifest: row?.manifest ?? "" };
  const { manifest } = row;
  const agent = await deps.manifests.resolve(tenant_id, manifest, thread_suffix).catch((error: unknown) => {
    const isGone = error instanceof SvcError && ["unknown_manifest", "invalid_manifest"].includes(error.code);
    if (!isGone) throw error;
    return null;
  });
  // No run of the thread can begin under this manifest. The run that reads the message screens it.
  if (agent === null) return { text, manifest };
  const threadId = `${tenant_id}:${thread_suffix}`;
  const models = modelsFor({ agent, store, thread: row, threadId });
  return { text: await screenedBy(text, inputScreen(sender, agent, threadId, models, deps), models), manifest };
}

async function screenedBy(text: string, screen: Screen | null, models: { settle(): Promise<void> }): Promise<string> {
  if (screen === null) return text;
  try {
    return await screen(text);
  } finally {
    await models.settle();
  }
}

/** Shown to the model in place of a queued message that the controls refuse. */
const withheld = "[a message of the user is withheld: a control of the agent refuses it]";

/** Screens the queued messages of a thread that were not screened for this agent. */
export async function screenQueued(
  store: TenantStore,
  threadKey: number,
  agent: CompiledAgent,
  screen: Screen,
): Promise<void> {
  const heads = await queuedHeads(store, threadKey);
  const numbers = heads.filter(({ kind }) => kind !== "note").map(({ number }) => number);
  if (numbers.length === 0) return;
  const rows = await queuedInputs(store, threadKey, numbers);
  const unscreened = rows.filter(({ detail }) => detail?.screened !== agent.name);
  if (unscreened.length === 0) return;
  const ops = [];
  for (const row of unscreened) ops.push(rewriteInputOp(store, row, await contentOf(row, screen), agent.name));
  await store.write(ops, requestMs);
}

async function contentOf({ content }: QueuedInput, screen: Screen): Promise<string> {
  try {
    return await screen(content);
  } catch (error) {
    // A refusal of the message is none of the turn.
    if (error instanceof SvcError && error.code.startsWith("content_screening")) return withheld;
    throw error;
  }
}
