import type { ActorContext } from "../../actors/runtime/define.ts";
import { defineActor } from "../../actors/runtime/define.ts";
import type { Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { settingOf } from "../../governance/settings/settings.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import type { PluginActorDeps } from "../plugin.ts";
import { addFollowUp, type BackgroundRun, followRun, newRunId, startRun, stopRun, storedRun } from "../runs.ts";
import { type ChannelEntry, channels } from "./channel-settings.ts";
import {
  type Conversation,
  conversationAddress,
  messageId,
  placeOf,
  principalOf,
  splitConversation,
  splitConversationKey,
  surfaceOf,
  threadSuffix,
} from "./conversations.ts";
import { answerOps, wakeAnswers } from "./deliver-answer.ts";
import { LiveAnswer } from "./live-answer.ts";
import { piecesOf } from "./pieces.ts";
import type { ChannelMessage, Platform, PlatformClient } from "./platform.ts";
import { prepareMessage } from "./prepare-message.ts";
import {
  beginMessageOp,
  editMessageOp,
  endMessageOp,
  type MessageRow,
  messageById,
  openMessages,
  postOp,
  postsOf,
  prepareMessageOp,
} from "./tables.ts";

/** Open messages of a conversation that are looked at together. */
const pageRows = 50;
/** Pauses until the state of a run is read again: one at work, and one that waits for a person. */
const workingMs = 2_000;
const waitingMs = 15_000;
const againMs = 1_000;
const failedMs = 5_000;

type Context = ActorContext<PluginActorDeps>;

interface State {
  readonly tenantId: string;
  readonly id: string;
  readonly conversation: Conversation;
  readonly store: TenantStore;
  /** Null if SVC_CHANNELS has the entry no longer. */
  readonly entry: ChannelEntry | null;
  readonly platform: Platform | undefined;
  client: Promise<PlatformClient> | null;
  /** The message whose answer is shown while its run works. */
  live: { readonly message: string; readonly answer: LiveAnswer } | null;
  /** The approval to which a post links; null for none since the load. */
  gate: string | null;
  /** Messages whose files are being read. */
  readonly preparing: Set<string>;
  timer: Timer | null;
  wakesAt: number;
}

/** Returns the actor of one conversation: it takes the messages in order, starts their runs and hands their answers to the outbox. */
export function conversationActor(platforms: ReadonlyMap<string, Platform>) {
  return defineActor<"channels", State, PluginActorDeps>({
    kind: "channels",
    mailboxLimit: 256,
    interleaves: [],
    reserved: [],
    passivateAfterMs: 60_000,
    load({ key, deps }) {
      const { tenantId, conversation: id } = splitConversationKey(key);
      const conversation = splitConversation(id);
      const entries = settingOf(deps.settings, channels);
      const entry = entries.find((one) => one.id === conversation.entry && one.tenant_id === tenantId) ?? null;
      return {
        ...{ tenantId, id, conversation, entry, store: deps.store.tenant(tenantId) },
        ...{ platform: platforms.get(entry?.platform ?? ""), client: null, live: null, gate: null },
        ...{ preparing: new Set<string>(), timer: null, wakesAt: 0 },
      };
    },
    idle: ({ live, preparing, timer }) => live === null && preparing.size === 0 && timer === null,
    crashed: ({ live, timer }) => {
      timer?.cancel();
      void live?.answer.stop();
    },
    on: {
      wake: (state, _body, context) => look(state, context),
      edited: async (state, { message }, context) => {
        await edit(state, message, context);
        return {};
      },
      deleted: async (state, { id }, context) => {
        await remove(state, id, context);
        return {};
      },
    },
  });
}

/** Advances the conversation as far as it can be now. */
async function look(state: State, context: Context): Promise<void> {
  const { store, id, entry, platform } = state;
  try {
    for (;;) {
      const rows = await openMessages(store, id, pageRows);
      const [first] = rows;
      if (first === undefined) return;
      if (entry === null || platform === undefined) {
        await store.write(rows.map((row) => endMessageOp(store, row.id)));
        continue;
      }
      const running = rows.find(({ state: at }) => at === "running");
      const isDone =
        running === undefined
          ? await begin(state, entry, first, context)
          : await advance(state, entry, running, rows, context);
      if (!isDone) return;
    }
  } catch (error) {
    const refusal = SvcError.from(error);
    if (!refusal.retryable && refusal.code !== "conflict") throw error;
    wakeIn(state, context, failedMs);
  }
}

/** Starts the run of a message. Returns true if the message has ended instead. */
async function begin(state: State, entry: ChannelEntry, row: MessageRow, context: Context): Promise<boolean> {
  if (row.prepared === null) {
    prepare(state, entry, row, context);
    return false;
  }
  // The id is stored first, so that a start whose outcome is unknown is repeated with it.
  const run_id = newRunId(context.env);
  await state.store.write([beginMessageOp(state.store, row.id, run_id)]);
  return start(state, entry, { ...row, run_id }, context);
}

async function start(state: State, entry: ChannelEntry, row: MessageRow, context: Context): Promise<boolean> {
  const { env, bus } = context;
  const { prepared, sender } = row;
  if (prepared === null || row.run_id === null) throw new Error("a run starts with a prepared message");
  show(state, entry, row, context);
  try {
    await startRun(
      {
        surface: surfaceOf(entry.platform),
        principal: principalOf(entry, sender),
        run_id: row.run_id,
        manifest: entry.manifest,
        thread: threadSuffix(entry, state.conversation),
        content: prepared.content,
        quoted: prepared.quoted,
      },
      { bus, env },
    );
    wakeIn(state, context, workingMs);
    return false;
  } catch (error) {
    const refusal = SvcError.from(error);
    if (refusal.retryable || refusal.code === "run_in_progress") {
      wakeIn(state, context, againMs);
      return false;
    }
    if (refusal.code === "internal_error")
      context.deps.log.error({ err: error }, "the run of a channel could not start");
    else context.deps.log.warn({ channel: entry.id, reason: refusal.code }, "the run of a channel was refused");
    await end(state, row, `This message could not be answered: ${refusal.message}`, context);
    return true;
  }
}

/** Looks at the run of a message. Returns true if the message has ended. */
async function advance(
  state: State,
  entry: ChannelEntry,
  row: MessageRow,
  rows: readonly MessageRow[],
  context: Context,
): Promise<boolean> {
  const { store, conversation } = state;
  const run_id = row.run_id ?? "";
  const found = await storedRun(store, run_id);
  // The process died between the two steps of the start.
  if (found === null) return start(state, entry, row, context);
  if (found.end !== null) {
    await end(state, row, textOf(found.end), context);
    return true;
  }
  show(state, entry, row, context);
  await addFollowUps(state, entry, row, rows, context);
  const { waiting_on } = found.standing;
  if (waiting_on?.kind === "approval" && waiting_on.id !== state.gate) {
    const text = gateText(context.deps.settings.publicUrl);
    await store.write(answerOps(store, { ...conversation, message: `${row.id}/gate/${waiting_on.id}`, text }));
    wakeAnswers(context.bus, state.tenantId, conversation);
    state.gate = waiting_on.id;
  }
  wakeIn(state, context, waiting_on === null ? workingMs : waitingMs);
  return false;
}

/** Adds later messages of the same user to the run; those of others wait for its end. */
async function addFollowUps(
  state: State,
  entry: ChannelEntry,
  { sender, run_id }: MessageRow,
  rows: readonly MessageRow[],
  context: Context,
): Promise<void> {
  const { store, conversation } = state;
  for (const row of rows.filter((one) => one.state === "queued" && one.sender === sender)) {
    if (row.prepared === null) {
      prepare(state, entry, row, context);
      return;
    }
    const { content, quoted } = row.prepared;
    // A message to a live run is text of the caller alone.
    if (typeof content !== "string" || quoted.length > 0) return;
    try {
      const place = placeOf(entry, conversation, run_id ?? "");
      await addFollowUp(place, content, principalOf(entry, sender), context);
      await store.write([endMessageOp(store, row.id)]);
    } catch (error) {
      const { code, retryable } = SvcError.from(error);
      if (!retryable && code.startsWith("content_screening"))
        await end(state, row, "This message was refused by the rules of the agent.", context);
      // The run is about to end or waits, so the message becomes a turn.
      else return;
    }
  }
}

/** Ends a message with the text for the channel. */
async function end(state: State, row: MessageRow, text: string, context: Context): Promise<void> {
  const { store, conversation, tenantId, live } = state;
  if (live?.message === row.id) {
    // An edit that is under way must not follow the whole answer, which the outbox sends after it.
    await live.answer.stop();
    state.live = null;
  }
  await store.write([endMessageOp(store, row.id), ...answerOps(store, { ...conversation, message: row.id, text })]);
  wakeAnswers(context.bus, tenantId, conversation);
}

function textOf({ texts, error }: NonNullable<BackgroundRun["end"]>): string {
  const said = texts.join("\n\n");
  if (error === null) return said === "" ? "(no answer)" : said;
  const why = error === "aborted" ? "Stopped." : `The run failed: ${error.slice(0, 200)}`;
  return said === "" ? why : `${said}\n\n${why}`;
}

function gateText(publicUrl: string): string {
  const where =
    publicUrl === ""
      ? "the inbox of the console (SVC_PUBLIC_URL is not set, so there is no link)"
      : `${publicUrl}/console#/inbox`;
  return `This waits for an approval in ${where}`;
}

/** Shows the answer of a run while the model writes it. */
function show(state: State, entry: ChannelEntry, row: MessageRow, context: Context): void {
  if (state.live?.message === row.id || state.platform === undefined) return;
  const { store, conversation, platform, tenantId } = state;
  const { env, bus } = context;
  let post: string | null | undefined;
  const answer = new LiveAnswer(env, async (line) => {
    const client = await clientOf(state, entry, context);
    const [said = ""] = piecesOf(platform.shown(line), platform.textMax);
    post ??= (await postsOf(store, row.id)).get(0) ?? null;
    if (post !== null) return client.edit(conversation.channel, post, said);
    post = await client.post(conversation.channel, conversation.thread, said);
    await store.write([postOp(store, row.id, 0, post)]);
  });
  const place = placeOf(entry, conversation, row.run_id ?? "");
  const address = conversationAddress(tenantId, state.id);
  answer.onStop = followRun(
    place,
    (frames) => {
      answer.take(frames);
      const isNews = frames.some(({ name, data }) => name === "run_status" && data.status !== "running");
      if (isNews) bus.tell(address, "wake", {});
    },
    { bus },
  );
  state.live = { message: row.id, answer };
}

/** Reads the files of a message, and looks at the conversation again. */
function prepare(state: State, entry: ChannelEntry, row: MessageRow, context: Context): void {
  const { store, preparing, tenantId } = state;
  const { message, id, sender } = row;
  if (preparing.has(id) || message === null) return;
  preparing.add(id);
  const reader = {
    client: () => clientOf(state, entry, context),
    ...{ store, files: context.deps.files, sub: principalOf(entry, sender).sub },
  };
  prepareMessage(message, reader)
    .then((prepared) => store.write([prepareMessageOp(store, row, prepared)]))
    .then(
      () => context.bus.tell(conversationAddress(tenantId, state.id), "wake", {}),
      (error: unknown) => {
        context.deps.log.warn({ err: error, channel: entry.id }, "a message of a channel could not be read");
        wakeIn(state, context, failedMs);
      },
    )
    .finally(() => preparing.delete(id));
}

function clientOf(state: State, entry: ChannelEntry, { deps }: Context): Promise<PlatformClient> {
  const { platform } = state;
  if (platform === undefined) throw new Error("the entry has no platform");
  state.client ??= deps.secrets.resolve(entry.bot_token).then((token) => platform.open(token, entry, deps));
  state.client.catch(() => {
    state.client = null;
  });
  return state.client;
}

/** Takes over the new text of a message: one that waits is replaced, and a live run gets it as a further message. */
async function edit(state: State, message: ChannelMessage, context: Context): Promise<void> {
  const { store, entry, conversation } = state;
  if (entry === null) return;
  const row = await messageById(store, messageId(entry.id, message.channel, message.id));
  if (row === undefined || row.ended_at !== null || row.sender !== message.user) return;
  if (row.state === "queued") {
    await store.write([editMessageOp(store, row.id, message)]);
    return look(state, context);
  }
  const place = placeOf(entry, conversation, row.run_id ?? "");
  const text = `I have changed my message. It is now:\n${message.text}`;
  await addFollowUp(place, text, principalOf(entry, row.sender), context).catch((error: unknown) => {
    if (SvcError.from(error).code === "internal_error") throw error;
  });
}

/** Drops a message that waits, and stops the run of one that is being answered. */
async function remove(state: State, id: string, context: Context): Promise<void> {
  const { store, entry, conversation } = state;
  if (entry === null) return;
  const row = await messageById(store, messageId(entry.id, conversation.channel, id));
  if (row === undefined || row.ended_at !== null) return;
  if (row.state === "queued") await store.write([endMessageOp(store, row.id)]);
  else await stopRun(placeOf(entry, conversation, row.run_id ?? ""), context);
  await look(state, context);
}

/** Looks at the conversation again, unless it is looked at earlier. */
function wakeIn(state: State, { env, bus }: Context, ms: number): void {
  const at = env.monotonic() + ms;
  if (state.timer !== null && state.wakesAt <= at) return;
  state.timer?.cancel();
  state.wakesAt = at;
  state.timer = env.timer(ms, () => {
    state.timer = null;
    bus.tell(conversationAddress(state.tenantId, state.id), "wake", {});
  });
}
