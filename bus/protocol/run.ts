import type { ChannelRef } from "./channel.ts";
import type { JsonText } from "./json-text.ts";
import type { LeaseProof } from "./lease.ts";
import type { TurnUsage } from "./model-reply.ts";
import type { Principal } from "./principal.ts";
import type { TurnOptions } from "./turn-options.ts";
import type { ClientVendor } from "./vendor-fields.ts";

/** One run: a turn from its request to its last frame. It lives beside its conversation, if it has one. */
export interface RunMessages {
  /**
   * Starts the turn, or answers an earlier one of the same idempotency key. Accepted means that the caller's messages are durable;
   * the rest comes over the channel. Safe to ask again with the same run_id.
   */
  start: { body: SubmitTurn; reply: TurnAccepted };
  /** Has the run accepted, to go on with a dead one of the same log. Safe to ask again: see actors/run/requeue.ts. */
  requeue: { body: { readonly of: string }; reply: AcceptedRun };
  /** Stops the run and answers when it has stopped: true unless it had ended by itself before. */
  abort: { body: { reason: AbortReason }; reply: { aborted: boolean } };
  /** The client that started the run is gone; the run goes on as long as the settings allow. */
  detach: { body: Record<string, never> };
  /** Answers one of the questions that the run has put to the outside. The first answer wins. */
  answer: { body: AnswerToWait | AnswerAsAsked; reply: { outcome: AnswerOutcome } };
  /** Something that the run waits for may have come, or its time be over (`due`): it looks. */
  resume: { body: { readonly due: boolean } };
  /** A durable run has a slot, and goes on. False when there is nothing to be done. Told of it is `left` when it does not need it any more. */
  work: { body: Record<string, never>; reply: { readonly taken: boolean } };
  /** Something waits in its conversation, under this number; a message that `interrupts` keeps calls from being begun. */
  steer: { body: InputHint };
  /**
   * A task of this run asks for what its next model call may use. Answered when there is something, or when nothing is left. A run
   * that was put aside is taken up for it; actor_lost means that nobody waits for the task.
   */
  reserve: { body: ReservationRequest; reply: ReservationReply };
  /** What was used of a reservation. */
  repay: { body: { readonly reservation_id: string; readonly used: BudgetUsed } };
  /** A task of this run is about to call a tool, which counts here too. The run is taken up for it like for a reservation. */
  count: {
    body: { readonly task_id: string; readonly tool: string };
    reply: { readonly breach: ReportedBreach | null };
  };
  /** A task of this run is about to begin one in the background: what all of them spend is kept in the store from here on. */
  share: { body: { readonly task_id: string }; reply: SharedBudgets };
  /** A task below this run, the first of its conversation, asks something of whoever listens. */
  relay: { body: { readonly name: string; readonly data: unknown } };
  /** A task of this run is put aside: nothing of it goes on. */
  taskAside: { body: { readonly task_id: string } };
  /** A task of this run is over. */
  taskEnded: { body: { readonly task_id: string; readonly outcome: TaskOutcome }; reply: Record<string, never> };
  /** Whether the run goes on or waits, and which of both. */
  alive: { body: Record<string, never>; reply: { readonly alive: boolean; readonly runs: boolean } };
  /** The n-th model request of the run, as it is on record; null when it is not. Any run of this id may be asked, with or without its thread. */
  request: { body: { readonly n: number; readonly with_bodies: boolean }; reply: ModelRequestView | null };
  /** What the run has said since its last durable event. */
  status: { body: Record<string, never>; reply: RunStatus };
}

/** A model request of a run. */
export interface ModelRequestView {
  readonly n: number;
  /** JSON of what is on record: see `CallFacts` in storage/tables/model-calls.ts. */
  readonly facts: string;
  /** Digest of what it has in common with other requests of its agent. */
  readonly frame: string;
  /** Null when they were not asked for. */
  readonly bodies: ModelRequestBodies | null;
}

/** What was sent. JSON texts, but the system text and the reply; null for what is not kept, or was not there. */
export interface ModelRequestBodies {
  readonly system: string | null;
  /** The message list without images. */
  readonly messages: string | null;
  readonly tools: string | null;
  readonly answer: string | null;
  /** What the model has said, where no event says it. */
  readonly reply: string | null;
  /** What of it is not as the record says, in words. */
  readonly problems: readonly string[];
}

/** Which run of which conversation. */
export interface RunPlace {
  readonly tenant_id: string;
  readonly suffix: string;
  readonly run_id: string;
}

/** That something waits for a run. */
export interface InputHint {
  readonly number: number;
  readonly interrupts: boolean;
}

/** Who or what stopped a run. */
export type AbortReason = "client" | "detached" | "shutdown" | "worker_lost";

/**
 * What the answer of a turn looks like. `continue` has no messages of its own. `compact` is no turn: nobody is answered, its messages
 * say what the summary is to be like.
 * Of a `job` nobody is told.
 */
export type EntryPoint =
  | "chat"
  | "chat_stream"
  | "continue"
  | "ask"
  | "compact"
  | "openai"
  | "openai_stream"
  | "responses"
  | "responses_stream"
  | "task"
  | "job"
  | "trigger";

/** A turn as it was asked for. Of the messages there is what a turn reads, checked for its outer shape only. */
export interface SubmitTurn {
  readonly run_id: string;
  readonly surface: EntryPoint;
  readonly principal: Principal;
  readonly request_id: string;
  readonly manifest: string;
  readonly messages: readonly ClientMessage[];
  /** Bytes of the client's request with what its references name; absent where no client has sent the turn. */
  readonly bytes?: number;
  /** The suffix; null for a stateless turn. */
  readonly thread_suffix: string | null;
  /** The suffix of a conversation that the turn is a question beside of, and no part of. Such a turn has no thread. */
  readonly side_of?: string;
  readonly model: string | null;
  readonly template: string | null;
  readonly template_args: readonly string[];
  /** Of the OpenAI entry point: lower than the manifest's only, and whether a last chunk carries usage. */
  readonly max_tokens: number | null;
  readonly temperature: number | null;
  readonly include_usage: boolean;
  /** Sends the model's thoughts as `reasoning_content`. Absent on other entry points than chat completions. */
  readonly include_reasoning?: true;
  /** Of the OpenAI entry point, where the request has some. */
  readonly options?: JsonText<TurnOptions>;
  /** Of POST /v1/responses, null on other entry points. */
  readonly response: AskedResponse | null;
  readonly idempotency: AskedOnce | null;
  /** What the client has shown to drive the conversation; null where nothing is to be checked. */
  readonly lease: LeaseProof | null;
  /** Where frames and the outcome go, but for a task, which tells its parent. */
  readonly channel: ChannelRef;
  /** Of a task only. */
  readonly parent?: ParentRun;
  /** Of a run that a trigger has set going. */
  readonly trigger?: TriggerDelivery;
}

/** The run that has handed a task to another. */
export interface ParentRun {
  readonly run_id: string;
  readonly suffix: string;
  readonly task_id: string;
  /** The conversation that all began in: its full id, its key in the store, and the run of its caller. */
  readonly root_thread_id: string;
  readonly root_key: number;
  readonly root_run_id: string;
  /** Whether somebody waits for it who could see to a question. */
  readonly attended: boolean;
  /** Whether somebody hears the frames of the caller's run, and may answer what they ask. */
  readonly heard: boolean;
  /** Epoch milliseconds after which the run above gets no more time, and its tasks get none. */
  readonly deadline: number;
  /** The agents above the task, the first of them the conversation's own. */
  readonly agents: readonly string[];
  /** How many tasks are in the chain, this one among them. */
  readonly depth: number;
  /** Of a task that goes on beside the run above, and when that is over; absent for one that it waits for. */
  readonly background?: BackgroundTask;
  /** Of a task that a durable run waits for: it is durable too, and goes on behind its last step as that does. */
  readonly durable?: DurableTask;
  /** It is one of those, or below one: it begins no other. */
  readonly beside?: true;
}

/** With what a task of a durable run begins. */
export interface DurableTask {
  /** Milliseconds for which it may be at work. */
  readonly active_ms: number;
}

/** With what a background task begins. */
export interface BackgroundTask extends SharedBudgets {
  /** Milliseconds for which it may be at work. */
  readonly active_ms: number;
  /** How many of its conversation may be in flight. */
  readonly tasks_max: number;
}

/** The budgets in the store that a task spends of, outermost first. */
export interface SharedBudgets {
  readonly budgets: readonly string[];
  /** Money is bounded in one of them: a model without a price may use nothing. */
  readonly priced: boolean;
}

/** By what a request is known that may be sent again. */
export interface AskedOnce {
  readonly key: string;
  readonly fingerprint: string;
  /** Epoch milliseconds up to which it is remembered, however short that is otherwise. */
  readonly until?: number;
}

/** What a trigger was told. */
export interface TriggerDelivery {
  readonly event: string;
  readonly delivery: string;
  /** JSON text; or the beginning of one that is too long, and `is_cut`. */
  readonly payload: string;
  readonly is_cut: boolean;
}

/** What came of a task. */
export interface TaskOutcome {
  readonly ok: boolean;
  /** The answer, or why there is none. */
  readonly text: string;
  /** The requests for approval that it has waited for. */
  readonly approvals: readonly string[];
  /** What it has used, and tasks of its own have; null where no provider has reported any. */
  readonly usage: TurnUsage | null;
}

/** What a model call of a task may need at most: see `RunBudget.reserve`. */
export interface ReservationRequest {
  readonly task_id: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  /** USD for a million tokens, the dearest that it may be; null when no rates are known. */
  readonly rates: { readonly input: number; readonly output: number } | null;
}

/** What a model call of a task may use. */
export interface BudgetReservation {
  readonly reservation_id: string;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cost_usd: number;
}

/** What it has used. */
export type BudgetUsed = Omit<BudgetReservation, "reservation_id">;

/** A limit that was reached above. */
export interface ReportedBreach {
  readonly limit: string;
  readonly detail: string;
}

/** A reservation, or the limit that is in its way. */
export type ReservationReply = { readonly reservation: BudgetReservation } | { readonly breach: ReportedBreach };

/** What POST /v1/responses asks for beside a turn: kept with the run, and told again with the response. */
export interface ResponseAsked {
  readonly previous_response_id: string | null;
  /** Shown to the model in this turn, and part of no later one. */
  readonly instructions: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly max_output_tokens: number | null;
  readonly temperature: number | null;
  /** False when the turn has no conversation. */
  readonly store: boolean;
  /** Nobody waits for the turn: it is a durable run. Absent for one that is answered at its end. */
  readonly background?: true;
}

/** The same, and which events of the log the response before it has: the last one must be the newest of the branch. */
export interface AskedResponse extends ResponseAsked {
  readonly follows: {
    readonly first_seq: number;
    readonly last_seq: number;
    /** The range is of a failed response to the same predecessor. Only the same question, sent again, continues there. */
    readonly repeats?: true;
  } | null;
}

/** A message of the client's, in the form of the OpenAI protocol. Its values are the client's word. */
export interface ClientMessage {
  readonly role: string;
  readonly content?: unknown;
  readonly name?: string;
  readonly tool_calls?: unknown;
  readonly tool_call_id?: string;
  readonly attachments?: unknown;
  /** Of an assistant's: fields that its provider wants back. */
  readonly vendor?: ClientVendor;
}

/** What becomes of a turn that is not refused. */
export type TurnAccepted =
  /** A run has started; frames or the answer follow on the channel. */
  | ({ readonly kind: "started" } & LeftOut)
  /** A durable run is in the store, and goes on by itself. `replayed` when that was said before. */
  | ({
      readonly kind: "accepted";
      readonly run: AcceptedRun;
      readonly replayed: boolean;
      /** How long a client may wait for its end where that is its answer; absent where it was accepted before. */
      readonly wait_ms?: number;
      /** The sequence number of its first event where it has begun with its acceptance. */
      readonly begun_at?: number;
    } & LeftOut)
  /** POST /chat sent again: the answer of the first time, as it was. */
  | { readonly kind: "answer"; readonly status: number; readonly body: string }
  /** A request on /v1 sent again: the run that has answered, in the thread of this suffix. */
  | { readonly kind: "logged"; readonly run_id: string; readonly suffix: string }
  /** POST /chat/stream sent again: the events that the first request appended, then how it ended. */
  | { readonly kind: "replay"; readonly frames: string };

/** Parts of the messages that no model can be given, by their types; absent for none. */
interface LeftOut {
  readonly dropped?: readonly string[];
}

/** What is said of a durable run as it is accepted. */
export interface AcceptedRun {
  readonly status: "accepted";
  readonly resume_token: string;
  readonly fiber_id: string;
  /** ISO 8601. */
  readonly expires_at: string;
  /** Null where the run has no conversation that a client could name. */
  readonly thread_id: string | null;
}

/** An answer to a wait, and who gives it. */
export interface AnswerToWait {
  readonly wait_id: string;
  readonly value: unknown;
  readonly principal: Principal;
}

/** The same of a run without a thread, by the id that the client was told. */
export interface AnswerAsAsked extends Omit<AnswerToWait, "wait_id"> {
  readonly kind: string;
  readonly asked_as: string;
}

/** `over`: answered before, too late, or no wait of this run. `not_allowed`: somebody else has to answer. */
export type AnswerOutcome = "accepted" | "over" | "not_allowed";

/** Where a run stands, for those who come to listen. */
export interface RunStatus {
  /** Null when the run is over. Text is left out when it is too long to be kept. */
  readonly live: { readonly text: string; readonly truncated: boolean } | null;
  /** The text was said after the events below this sequence number, and before any other. */
  readonly since_seq: number;
}

/** The answer of an entry point that is not streamed. */
export interface TurnAnswer {
  readonly status: number;
  readonly body: string;
  /** By lower-case names; absent for none. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * What a run sends over its channel. Streams get frames as they are to be written. The other entry points get one text at the
 * end, the status and the headers on its first line and the body after it.
 */
export function encodeAnswer(status: number, body: string, headers?: TurnAnswer["headers"]): string {
  return headers === undefined ? `${status}\n${body}` : `${status} ${JSON.stringify(headers)}\n${body}`;
}

/** The answer that `encodeAnswer` has packed. */
export function decodeAnswer(text: string): TurnAnswer {
  const end = text.indexOf("\n");
  const head = text.slice(0, end);
  const body = text.slice(end + 1);
  if (head.length === 3) return { status: Number(head), body };
  return { status: Number(head.slice(0, 3)), body, headers: JSON.parse(head.slice(4)) };
}
