import { chunk } from "../chat.ts";
import { jsonScript } from "../mock-model/answer.ts";
import type { Behaviour, Reply } from "../mock-model/behaviours.ts";
import type { Script } from "../mock-model/script.ts";
import type { MockModel } from "../mock-model.ts";

// A family of providers, as a strict stand-in. It refuses the same requests as the real API, by the family's public
// documents, and gives scripted answers to all others. Each rule names its document.

export type Json = Readonly<Record<string, unknown>>;

/** A provider family of the OpenAI protocol. */
export interface Family {
  /** Routes to its models by their ids: the provider of svc and the name on the wire. */
  readonly routes: Readonly<Record<string, { readonly provider: string; readonly model: string }>>;
  /** True where svc has no provider of that name: it comes from SVC_MODEL_PROVIDERS. */
  readonly own?: readonly string[];
  /** The refusal of a request; null when the API takes it. */
  refusalOf(body: ChatBody): Refusal | null;
}

/** A refusal with the family's own text. */
export interface Refusal {
  readonly status: number;
  /** The whole body. */
  readonly body: unknown;
}

export interface ChatBody extends Json {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
}

export interface ChatMessage extends Json {
  readonly role: string;
  readonly content?: unknown;
  readonly tool_calls?: readonly ChatCall[];
  readonly tool_call_id?: string;
}

export interface ChatCall extends Json {
  readonly id: string;
  readonly function: { readonly name: string; readonly arguments: string };
}

/** An answer of these deltas, one event each. It ends with tool_calls if one of them has a call. */
export function deltas(...said: readonly Json[]): Script {
  const finish = said.some(({ tool_calls }) => tool_calls !== undefined) ? "tool_calls" : "stop";
  const events = said.map((delta) => chunk(delta, null));
  return { steps: [{ send: `${events.join("")}${chunk({}, finish)}data: [DONE]\n\n` }] };
}

/** A call of the calculator in one piece, with `more` as further fields. */
export function calculation(id: string, expression: string, more: Json = {}): Json {
  const args = JSON.stringify({ expression });
  return { id, type: "function", function: { name: "calculator", arguments: args }, ...more };
}

/** One model of a family on the mock model server. */
export class StandIn {
  /** Accepted bodies, oldest first. */
  readonly requests: ChatBody[] = [];
  /** Texts of its refusals of malformed requests; a test that expects some removes them. */
  readonly refused: string[] = [];
  #replies: readonly Behaviour[] = [{ text: "Hello." }];
  #answered = 0;

  constructor(family: Family, model: string, mock: MockModel) {
    mock.answer(model, (asked) => this.#reply(family, asked));
  }

  /** Answers the next accepted requests with these in turn, and with the last one from then on. */
  says(...replies: readonly Behaviour[]): void {
    this.#replies = replies;
    this.#answered = 0;
    this.requests.length = 0;
    this.refused.length = 0;
  }

  #reply(family: Family, asked: Parameters<Extract<Behaviour, (...args: never) => Reply>>[0]): Reply {
    const body = asked.body as ChatBody;
    const refusal = family.refusalOf(body);
    if (refusal !== null) {
      this.refused.push(JSON.stringify(refusal.body));
      return jsonScript(refusal.status, refusal.body);
    }
    this.requests.push(body);
    const reply = this.#replies[this.#answered++] ?? this.#replies.at(-1) ?? {};
    return typeof reply === "function" ? reply(asked) : reply;
  }
}
