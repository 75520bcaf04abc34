import { a2aContextOf } from "../address.ts";
import type { Channel } from "../protocol/channel.ts";
import { fromJsonText } from "../protocol/json-text.ts";
import type { EntryPoint, OwnEntryPoint, PluginForm, SubmitTurn } from "../protocol/run.ts";
import { A2aStream, a2aAnswer } from "./a2a.ts";
import type { A2aTask } from "./a2a-objects.ts";
import { AguiStream } from "./agui.ts";
import { jsonAnswer } from "./answer.ts";
import { asideAnswer } from "./aside-answer.ts";
import { callAnswer } from "./call-answer.ts";
import { compactionAnswer } from "./compaction-answer.ts";
import { NativeStream } from "./native-stream.ts";
import { type Completion, openAiAnswer, openAiStream } from "./openai.ts";
import type { RunOutput } from "./output.ts";
import { type ResponseHead, responseId } from "./response-object.ts";
import { responseAnswer, responseStream } from "./responses.ts";

/** The properties of an entry point that the parts of a run depend on. */
export interface EntryPointTraits {
  /**
   * The work of the run. `turn`: the request brings messages. `continuation`: the run continues with the messages of the thread.
   * `compaction`: the run compacts the thread and is no turn. `call`: the run calls one tool and is no turn.
   */
  readonly work: "turn" | "continuation" | "compaction" | "call";
  /** Durability of the run: by its manifest, always, or never. */
  readonly durable: "by_manifest" | "always" | "never";
  /** True if the end of a durable run goes to the webhooks of its manifest (decision 201: evaluations send none). */
  readonly sendsWebhooks: boolean;
  /** True if a caller waits for the run and can answer its questions (decision 90). A task is as attended as its parent run. */
  readonly attended: boolean;
  /** True if the client reads the frames of the run and may answer the questions in them (decision 94). */
  readonly keepsStream: boolean;
  /** True if the client waits for the end of a durable run, because its protocol has no resume token. */
  readonly awaitsDurable: boolean;
  /** True if a caller talks to the agent, whose facts may be captured then (decision 134). */
  readonly isConversation: boolean;
  /** True if the client sends the whole conversation again with each request. */
  readonly resendsHistory: boolean;
  /** Returns the parts of an idempotency key's scope that are specific to the entry point; null if requests have no key. */
  readonly keyPlace: ((suffix: string | null) => readonly (string | null)[]) | null;
  /** True if the key has its own expiry and stays after the rows of its run are deleted. */
  readonly keyOutlivesRun: boolean;
  /** Returns the client's id of the thread with this suffix; null where clients name threads by their suffix. */
  readonly contextOf: (suffix: string) => string | null;
  /** Creates the output to the caller; null if no caller reads the run. */
  readonly output: ((asked: OutputAsked) => RunOutput) | null;
}

/** The turn and the channel of an output. */
interface OutputAsked {
  readonly turn: SubmitTurn;
  readonly channel: Channel;
  readonly agentName: string;
  /** Epoch seconds. */
  readonly created: number;
  /** Sequence number of the first event of the turn; null for a lost run, whose last event is unknown. */
  readonly firstSeq: number | null;
}

/** The entry point POST /chat. The others state their differences from it. */
const chat: EntryPointTraits = {
  work: "turn",
  durable: "by_manifest",
  sendsWebhooks: true,
  attended: true,
  keepsStream: false,
  awaitsDurable: false,
  isConversation: true,
  resendsHistory: false,
  keyPlace: () => ["chat"],
  keyOutlivesRun: false,
  contextOf: () => null,
  output: ({ channel, turn }) => jsonAnswer(channel, false, turn.request_id),
};
/** Part of the scope of keys whose answer is read from the log, if the turn has a log. */
export const loggedKeyPlace = "v1";
/** Returns the scope's parts for keys of POST /v1/responses. */
export const responseKeyPlace = (): readonly string[] => [loggedKeyPlace, "responses"];
/** Properties of runs that no client waits for. */
const unattended = {
  ...chat,
  attended: false,
  isConversation: false,
  keyPlace: null,
  output: null,
} satisfies EntryPointTraits;
const completion = {
  ...chat,
  awaitsDurable: true,
  resendsHistory: true,
  keyPlace: () => [loggedKeyPlace, "completions"],
} satisfies EntryPointTraits;
const response = { ...chat, awaitsDurable: true, keyPlace: responseKeyPlace } satisfies EntryPointTraits;

/** The entry points of MCP. Their client waits for the result and cannot answer a question. */
const mcp = {
  ...unattended,
  output: ({ channel, turn }) => callAnswer(channel, turn),
} satisfies EntryPointTraits;

/** Every entry point of svc, by the name that run rows store. */
export const entryPoints: Readonly<Record<OwnEntryPoint, EntryPointTraits>> = {
  chat,
  chat_stream: {
    ...chat,
    keepsStream: true,
    keyPlace: (suffix) => ["stream", suffix],
    output: ({ channel, turn }) => new NativeStream(channel, turn.request_id),
  },
  continue: {
    ...chat,
    work: "continuation",
    keyPlace: null,
    output: ({ channel, turn }) => jsonAnswer(channel, true, turn.request_id),
  },
  ask: {
    ...chat,
    durable: "never",
    isConversation: false,
    keyPlace: null,
    output: ({ channel, turn }) => asideAnswer(channel, turn.request_id),
  },
  compact: {
    ...chat,
    work: "compaction",
    durable: "never",
    keyPlace: null,
    output: ({ channel, turn }) => compactionAnswer(channel, turn.request_id),
  },
  openai: {
    ...completion,
    output: ({ channel, turn, agentName, created }) =>
      openAiAnswer(channel, completionHead(turn, agentName, created), turn.include_reasoning === true, turn.request_id),
  },
  openai_stream: {
    ...completion,
    output: ({ channel, turn, agentName, created }) =>
      openAiStream(channel, completionHead(turn, agentName, created), turn, turn.request_id),
  },
  responses: {
    ...response,
    output: ({ channel, turn, agentName, created, firstSeq }) =>
      responseAnswer(channel, responseHead(turn, agentName, created, firstSeq), turn.request_id),
  },
  responses_stream: {
    ...response,
    output: ({ channel, turn, agentName, created, firstSeq }) =>
      responseStream(
        channel,
        responseHead(turn, agentName, created, firstSeq),
        turn.request_id,
        // The number of the last event that a lost run sent is unknown, so use one above all others.
        firstSeq === null ? Number.MAX_SAFE_INTEGER : 0,
      ),
  },
  a2a: {
    ...unattended,
    isConversation: true,
    contextOf: a2aContextOf,
    output: ({ channel, turn, agentName, created }) =>
      turn.a2a?.streams === true
        ? new A2aStream(channel, turn.a2a, begunTask(turn, agentName, created), turn.request_id)
        : a2aAnswer(channel, turn.request_id),
  },
  agui: {
    ...chat,
    keepsStream: true,
    awaitsDurable: true,
    resendsHistory: true,
    keyPlace: null,
    output: ({ channel, turn }) =>
      new AguiStream(channel, turn.agui ?? { threadId: "", runId: turn.run_id }, turn.run_id, turn.request_id),
  },
  task: { ...unattended, durable: "never" },
  job: { ...unattended, durable: "always" },
  eval: { ...unattended, durable: "always", sendsWebhooks: false },
  workflow: { ...unattended, durable: "always" },
  workflow_call: { ...unattended, work: "call", durable: "always" },
  trigger: { ...unattended, durable: "always", keyPlace: () => ["trigger"], keyOutlivesRun: true },
  mcp: { ...mcp, work: "call", durable: "never" },
  mcp_chat: { ...mcp, isConversation: true, awaitsDurable: true },
};

/** Returns the traits of an entry point, of svc or of a plugin. */
export function entryPointOf(surface: EntryPoint): EntryPointTraits {
  if (Object.hasOwn(entryPoints, surface)) return entryPoints[surface as OwnEntryPoint];
  const form = surface.slice(0, surface.indexOf(":")) as PluginForm;
  return pluginForms[form](surface);
}

/** The traits of the entry points of plugins, by their form. */
const pluginForms: Readonly<Record<PluginForm, (surface: EntryPoint) => EntryPointTraits>> = {
  answer: (surface) => ({ ...chat, keyPlace: () => ["plugin", surface] }),
  stream: (surface) => ({ ...entryPoints.chat_stream, keyPlace: (suffix) => ["stream", surface, suffix] }),
  background: (surface) => ({
    ...unattended,
    durable: "always",
    attended: true,
    isConversation: true,
    keyPlace: () => ["plugin", surface],
    keyOutlivesRun: true,
  }),
};

/** True if the run compacts its thread, and is no turn. */
export function isCompaction({ surface }: { readonly surface: EntryPoint }): boolean {
  return entryPointOf(surface).work === "compaction";
}

function begunTask({ run_id, thread_suffix }: SubmitTurn, manifest: string, created: number): A2aTask {
  const status = { state: "working", at: created * 1000, text: null } as const;
  return {
    id: run_id,
    contextId: a2aContextOf(thread_suffix ?? "") ?? "",
    manifest,
    status,
    answer: null,
    history: [],
  };
}

function completionHead({ run_id }: SubmitTurn, model: string, created: number): Completion {
  return { id: `chatcmpl-${run_id.slice(0, 24)}`, created, model };
}

function responseHead(
  { thread_suffix, run_id, response, options }: SubmitTurn,
  model: string,
  created_at: number,
  firstSeq: number | null,
): ResponseHead {
  if (response === null) throw new Error("a response needs the fields of POST /v1/responses");
  return {
    id: responseId(thread_suffix, run_id, firstSeq ?? 0),
    created_at,
    model,
    asked: response,
    options: options === undefined ? null : fromJsonText(options),
  };
}
