import type { ChannelRef } from "./channel.ts";
import type { JsonText } from "./json-text.ts";
import type { LeaseProof } from "./lease.ts";
import type { Principal } from "./principal.ts";
import type { OfferedTools, SingleCall, ToolsAsked } from "./single-call.ts";
import type { ParentRun, TaskOutcome } from "./task.ts";
import type { TraceContext } from "./trace.ts";
import type { TurnOptions } from "./turn-options.ts";
import type { ClientVendor } from "./vendor-fields.ts";
import type { WorkflowStepRun } from "./workflow.ts";

/**
 * Messages to a run: one turn from its request to its last frame. It lives on the node of its thread, if it has one.
 */
export interface RunMessages {
  /**
   * Starts the turn, or replays an earlier one of the same idempotency key. After the reply, the caller's messages are
   * durable; everything else comes over the channel. Safe to repeat with the same run_id.
   */
  start: { body: SubmitTurn; reply: TurnAccepted };
  /** Accepts this run as the continuation of a dead one in the same log. Safe to repeat; see actors/run/lifecycle/requeue.ts. */
  requeue: { body: { readonly of: string }; reply: AcceptedRun };
  /** Stops the run and replies when it has stopped: true unless it had ended before. */
  abort: { body: { reason: AbortReason }; reply: { aborted: boolean } };
  /** The starting client has disconnected. The run continues as long as the settings allow. */
  detach: { body: Record<string, never> };
  /** Answers an open wait of the run. The first answer wins. */
  answer: { body: AnswerToWait | AnswerAsAsked; reply: { outcome: AnswerOutcome } };
  /** Hints that a wait may be answered or overdue (`due`); the run reads its waits. */
  resume: { body: { readonly due: boolean } };
  /**
   * Gives a slot to a durable run, which continues. Returns false if there is nothing to do. The run sends `left` to
   * return the slot.
   */
  work: { body: Record<string, never>; reply: { readonly taken: boolean } };
  /**
   * Hints that an input with this number is queued in its thread. One that `interrupts` prevents further calls of the
   * step.
   */
  steer: { body: InputHint };
  /**
   * A suspended task of this run works again. A suspended run resumes for this, to wait for the task. Refuses with actor_lost if no
   * call waits for the task.
   */
  taskResumed: { body: { readonly task_id: string }; reply: Record<string, never> };
  /** Publishes a question of a task below this root run to its subscribers. */
  relay: { body: { readonly name: string; readonly data: unknown } };
  /** A task of this run is suspended, so nothing of it runs. */
  taskAside: { body: { readonly task_id: string } };
  /** A task of this run has ended. */
  taskEnded: { body: { readonly task_id: string; readonly outcome: TaskOutcome }; reply: Record<string, never> };
  /** Returns whether the run is open, and whether it is running. */
  alive: { body: Record<string, never>; reply: { readonly alive: boolean; readonly runs: boolean } };
  /**
   * Returns the recorded n-th model request of the run; null if there is none. Works for any run id, also without its
   * thread.
   */
  request: { body: { readonly n: number; readonly with_bodies: boolean }; reply: ModelRequestView | null };
  /** Lists the tools that a run of one call may use. Refuses as `start` does. Works for any run id. */
  tools: { body: ToolsAsked; reply: OfferedTools };
  /**
   * Passes a message to a thread through the controls of its agent. Refuses with content_screening_denied and the like.
   * Works for any run id.
   */
  screen: { body: ScreenText; reply: ScreenedText };
  /** Returns the text since the run's last durable event. */
  status: { body: Record<string, never>; reply: RunStatus };
}

/** A model request of a run. */
export interface ModelRequestView {
  readonly n: number;
  /** JSON of the context record; see `CallFacts` in storage/tables/model-calls.ts. */
  readonly facts: string;
  /** Digest of the prompt prefix that the agent's requests share. */
  readonly frame: string;
  /** Null if they were not requested. */
  readonly bodies: ModelRequestBodies | null;
}

/** The contents of a request. JSON texts, except for the system text and the reply; null if not stored or absent. */
export interface ModelRequestBodies {
  readonly system: string | null;
  /** The message list without images. */
  readonly messages: string | null;
  readonly tools: string | null;
  readonly answer: string | null;
  /** The model's reply, if no event holds it. */
  readonly reply: string | null;
  /** Differences between the rebuilt request and its record, in words. */
  readonly problems: readonly string[];
}

/** A message to a thread, outside of a turn. */
export interface ScreenText {
  readonly principal: Principal;
  readonly request_id: string;
  readonly thread_suffix: string;
  readonly text: string;
}

/** The text that the controls let through. */
export interface ScreenedText {
  readonly text: string;
  /** The manifest of the thread; empty for none, and then nothing was screened. */
  readonly manifest: string;
}

/** Tenant, thread and id of a run. */
export interface RunPlace {
  readonly tenant_id: string;
  readonly suffix: string;
  readonly run_id: string;
}

/** A hint that a run has a queued input. */
export interface InputHint {
  readonly number: number;
  readonly interrupts: boolean;
}

/** The cause of an abort. */
export type AbortReason = "client" | "detached" | "shutdown" | "worker_lost" | "frozen";

/** The entry point of a run, which decides the form of its answer. */
export type EntryPoint = OwnEntryPoint | PluginEntryPoint;

/** The entry point of a plugin: its form, a colon and its name, such as `background:slack`. */
export type PluginEntryPoint = `${PluginForm}:${string}`;

/**
 * The form of a plugin's entry point. Runs of `answer` and `stream` work like POST /chat and POST /chat/stream. Runs of `background` are
 * always durable and have no client: approval requests wait for an answer, and questions to the user get none.
 */
export type PluginForm = "answer" | "stream" | "background";

/**
 * An entry point of svc. `continue` has no messages of its own. `compact` is
 * no turn: its messages are instructions for the summary. A `job`, an `eval` and a `workflow` have no client. `mcp` and `workflow_call`
 * call one tool and no model.
 */
export type OwnEntryPoint =
  | "chat"
  | "chat_stream"
  | "continue"
  | "ask"
  | "compact"
  | "openai"
  | "openai_stream"
  | "responses"
  | "responses_stream"
  | "a2a"
  | "agui"
  | "task"
  | "job"
  | "eval"
  | "trigger"
  | "mcp"
  | "workflow"
  | "workflow_call"
  | "mcp_chat";

/** A requested turn. It contains the parts of the messages that a turn reads, with only their outer shape checked. */
export interface SubmitTurn {
  readonly run_id: string;
  readonly surface: EntryPoint;
  readonly principal: Principal;
  readonly request_id: string;
  readonly manifest: string;
  readonly messages: readonly ClientMessage[];
  /** Bytes of the client's request with its references; absent without a client. */
  readonly bytes?: number;
  /** The suffix; null for a turn without a thread. */
  readonly thread_suffix: string | null;
  /**
   * The suffix of a thread that the turn asks a question about without being part of it. Such a turn has no thread of
   * its own.
   */
  readonly side_of?: string;
  readonly model: string | null;
  readonly template: string | null;
  readonly template_args: readonly string[];
  /** Set by the OpenAI routes only; may only lower the manifest's limit. */
  readonly max_tokens: number | null;
  /** Set by the OpenAI routes only. */
  readonly temperature: number | null;
  /** True if the last chunk of a chat completion stream carries the usage. */
  readonly include_usage: boolean;
  /** Sends the model's reasoning as `reasoning_content`. Set for chat completions only. */
  readonly include_reasoning?: true;
  /** Options of a request to the OpenAI routes, if it has some. */
  readonly options?: JsonText<TurnOptions>;
  /** Set for POST /v1/responses only; null otherwise. */
  readonly response: AskedResponse | null;
  readonly idempotency: AskedOnce | null;
  /** The client's lease token; null if leases are not checked. */
  readonly lease: LeaseProof | null;
  /** Channel for frames and the outcome. A task reports to its parent instead. */
  readonly channel: ChannelRef;
  /** Set for a task only. */
  readonly parent?: ParentRun;
  /** Texts of others that came with the caller's messages. They go before them as data, and taint the run. */
  readonly quoted?: readonly QuotedText[];
  /** Set for a run that a trigger started. */
  readonly trigger?: TriggerDelivery;
  /** Set for a run of an evaluation. */
  readonly evaluation?: EvaluatedRun;
  /** Set for a run that works for a step of a workflow. */
  readonly workflow?: WorkflowStepRun;
  /** Set for a task of the A2A protocol. */
  readonly a2a?: A2aCall;
  /** The ids that a client of AG-UI has given. */
  readonly agui?: AguiRun;
  /** The trace of the request; null if it is not sampled, and absent for work without a request. */
  readonly trace?: TraceContext | null;
  /** Set for a run of one call. */
  readonly call?: SingleCall;
  /** Agents that the request has passed through before; absent for none. */
  readonly hops?: number;
}

/** A text that is not the caller's. */
export interface QuotedText {
  /** The source that taints the run, such as `channel`. */
  readonly source: string;
  /** Explains the text to the model. */
  readonly note: string;
  readonly text: string;
}

/** The part of an evaluation that a run belongs to. */
export interface EvaluatedRun {
  readonly eval_run_id: string;
  readonly item_id: string;
  /** Digest of the stored manifest that the run uses instead of the current one of its name. */
  readonly body: string;
  /** False: calls of tools that spend or speak are denied, also in the tasks of the run. */
  readonly allow_effects: boolean;
}

/** The call of the A2A protocol that asks for a task. */
export interface A2aCall {
  readonly version: A2aVersion;
  /** The id that its answers repeat. */
  readonly rpc_id: string | number | null;
  /** True if the caller reads the text while the model writes it. */
  readonly streams: boolean;
}

/** A generation of the wire of the A2A protocol. */
export type A2aVersion = "1.0" | "0.3";

/** The idempotency key of a request. */
export interface AskedOnce {
  readonly key: string;
  readonly fingerprint: string;
  /** Epoch milliseconds until which it is stored, at least. */
  readonly until?: number;
}

/** The event that started a triggered run. */
export interface TriggerDelivery {
  readonly event: string;
  readonly delivery: string;
  /** JSON text; or the beginning of a longer one, with `is_cut`. */
  readonly payload: string;
  readonly is_cut: boolean;
}

/** Fields of POST /v1/responses beyond a turn's, stored with the run and repeated in the response. */
export interface ResponseAsked {
  readonly previous_response_id: string | null;
  /** Shown to the model in this turn only. */
  readonly instructions: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly max_output_tokens: number | null;
  readonly temperature: number | null;
  /** False if the turn has no thread. */
  readonly store: boolean;
  /** Set for a durable run without a waiting client; absent for a turn that is answered at its end. */
  readonly background?: true;
}

/** The same, with the log range of the previous response, whose last event must be the newest of the branch. */
export interface AskedResponse extends ResponseAsked {
  readonly follows: {
    readonly first_seq: number;
    readonly last_seq: number;
    /**
     * Set if the range is that of a failed response to the same predecessor. Only the same question, sent again,
     * continues there.
     */
    readonly repeats?: true;
  } | null;
}

/** A client's message in the form of the OpenAI protocol. Its values are not validated. */
export interface ClientMessage {
  readonly role: string;
  readonly content?: unknown;
  readonly name?: string;
  readonly tool_calls?: unknown;
  readonly tool_call_id?: string;
  readonly attachments?: unknown;
  /** Vendor fields of an assistant message, which its provider requires again. */
  readonly vendor?: ClientVendor;
}

/** Reply to a turn that was not refused. */
export type TurnAccepted =
  /** A run has started; frames or the answer follow on the channel. */
  | ({ readonly kind: "started" } & LeftOut)
  /** A durable run is stored and continues on its own. `replayed` for a repeated request. */
  | ({
      readonly kind: "accepted";
      readonly run: AcceptedRun;
      readonly replayed: boolean;
      /** Max wait of a client for the end, if the end is its answer; absent for a repeated request. */
      readonly wait_ms?: number;
      /** Sequence number of the first event, if the run started with its acceptance. */
      readonly begun_at?: number;
    } & LeftOut)
  /** Repeated POST /chat: the stored answer. */
  | { readonly kind: "answer"; readonly status: number; readonly body: string }
  /** Repeated request to /v1: the run that answered, and the suffix of its thread. */
  | { readonly kind: "logged"; readonly run_id: string; readonly suffix: string }
  /** Repeated POST /chat/stream: the events that the first request appended, then its end. */
  | { readonly kind: "replay"; readonly frames: string };

/** Types of message parts that no model accepts; absent for none. */
interface LeftOut {
  readonly dropped?: readonly string[];
}

/** The reply for an accepted durable run. */
export interface AcceptedRun {
  readonly status: "accepted";
  readonly resume_token: string;
  readonly fiber_id: string;
  /** ISO 8601. */
  readonly expires_at: string;
  /** Null if the run has no thread that a client could address. */
  readonly thread_id: string | null;
}

/** An answer to a wait, and its author. */
export interface AnswerToWait {
  readonly wait_id: string;
  readonly value: unknown;
  readonly principal: Principal;
}

/** An answer to a run without a thread, with the id that the client received. */
export interface AnswerAsAsked extends Omit<AnswerToWait, "wait_id"> {
  readonly kind: string;
  readonly asked_as: string;
}

/** `over`: answered before, too late, or no wait of this run. `not_allowed`: another principal must answer. */
export type AnswerOutcome = "accepted" | "over" | "not_allowed";

/** State of a run, for a new subscriber. */
export interface RunStatus {
  /** Null after the end. Text is omitted if it is too long to be buffered. */
  readonly live: { readonly text: string; readonly truncated: boolean } | null;
  /** The text follows the events below this sequence number, and precedes all others. */
  readonly since_seq: number;
}

/** The names of a run in the protocol AG-UI. */
export interface AguiRun {
  readonly threadId: string;
  readonly runId: string;
}
