import type { Channel } from "../protocol/channel.ts";
import { fromJsonText } from "../protocol/json-text.ts";
import type { EntryPoint, SubmitTurn } from "../protocol/run.ts";
import { jsonAnswer } from "./answer.ts";
import { asideAnswer } from "./aside-answer.ts";
import { compactionAnswer } from "./compaction-answer.ts";
import { NativeStream } from "./native-stream.ts";
import { type Completion, openAiAnswer, openAiStream } from "./openai.ts";
import type { RunOutput } from "./output.ts";
import { type ResponseHead, responseId } from "./response-object.ts";
import { responseAnswer, responseStream } from "./responses.ts";

/** A way of starting a run, and what the parts of a run need to know about it. */
export interface EntryPointTraits {
  /**
   * The work of the run: a turn with messages of its own, a turn that continues with the messages of its thread, or a compaction, which
   * is no turn.
   */
  readonly work: "turn" | "continuation" | "compaction";
  /** Durability of the run: by its manifest, always, or never. */
  readonly durable: "by_manifest" | "always" | "never";
  /** True if a caller waits for the run and can answer its questions (decision 90). A task is as attended as its parent run. */
  readonly attended: boolean;
  /** Whether the client reads the frames of the run, and may answer the questions in them (decision 94). */
  readonly keepsStream: boolean;
  /** Whether the client waits for the end of a durable run, because its protocol has no token for it. */
  readonly awaitsDurable: boolean;
  /** Whether the client sends the whole conversation again with each request. */
  readonly resendsHistory: boolean;
  /** Where an idempotency key belongs in its tenant; null where requests have none. */
  readonly keyPlace: ((suffix: string | null) => readonly (string | null)[]) | null;
  /** Whether the key has an expiry of its own, and stays when the rows of its run go. */
  readonly keyOutlivesRun: boolean;
  /** Writes what the caller reads; null where no caller reads the run. */
  readonly output: ((asked: OutputAsked) => RunOutput) | null;
}

/** The turn and the channel of an output. */
interface OutputAsked {
  readonly turn: SubmitTurn;
  readonly channel: Channel;
  readonly agentName: string;
  /** Epoch seconds. */
  readonly created: number;
  /** The sequence number of the first event of the turn; null for a run that is lost, whose last event is unknown. */
  readonly firstSeq: number | null;
}

/** A turn of a client that holds a conversation. Other entry points name their differences from it. */
const chat: EntryPointTraits = {
  work: "turn",
  durable: "by_manifest",
  attended: true,
  keepsStream: false,
  awaitsDurable: false,
  resendsHistory: false,
  keyPlace: () => ["chat"],
  keyOutlivesRun: false,
  output: ({ channel, turn }) => jsonAnswer(channel, false, turn.request_id),
};
/** Of keys whose answer is read from the log where the turn has one. */
export const loggedKeyPlace = "v1";
/** Of keys of POST /v1/responses. */
export const responseKeyPlace = (): readonly string[] => [loggedKeyPlace, "responses"];
/** A run that no client waits for. */
const unattended = { ...chat, attended: false, keyPlace: null, output: null } satisfies EntryPointTraits;
const completion = {
  ...chat,
  awaitsDurable: true,
  resendsHistory: true,
  keyPlace: () => [loggedKeyPlace, "completions"],
} satisfies EntryPointTraits;
const response = { ...chat, awaitsDurable: true, keyPlace: responseKeyPlace } satisfies EntryPointTraits;

/** Every entry point, by the name that the rows of its runs have for it. */
export const entryPoints: Readonly<Record<EntryPoint, EntryPointTraits>> = {
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
        // The last number that was sent is unknown for a lost run: this one is above all.
        firstSeq === null ? Number.MAX_SAFE_INTEGER : 0,
      ),
  },
  task: { ...unattended, durable: "never" },
  job: { ...unattended, durable: "always" },
  trigger: { ...unattended, durable: "always", keyPlace: () => ["trigger"], keyOutlivesRun: true },
};

function completionHead({ run_id }: SubmitTurn, model: string, created: number): Completion {
  return { id: `chatcmpl-${run_id.slice(0, 24)}`, created, model };
}

function responseHead(
  { thread_suffix, run_id, response, options }: SubmitTurn,
  model: string,
  created_at: number,
  firstSeq: number | null,
): ResponseHead {
  if (response === null) throw new Error("a response that nobody has asked for");
  return {
    id: responseId(thread_suffix, run_id, firstSeq ?? 0),
    created_at,
    model,
    asked: response,
    options: options === undefined ? null : fromJsonText(options),
  };
}
