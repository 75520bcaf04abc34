// A server that speaks Anthropic's Messages API on real sockets, and refuses the same requests as the real one, with
// its texts. The test gives the model's answers.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Failure, type MessageAnswer, renderMessage } from "./mock-anthropic/answer.ts";
import { type Json, type ModelFacts, Proofs, refusalOf } from "./mock-anthropic/rules.ts";

export interface MockAnthropic {
  /** The base URL for a client, `/v1` included. */
  readonly url: string;
  /** Every well-formed request, oldest first. */
  readonly requests: readonly MessagesRequest[];
  /** Malformed requests, oldest first; a test that expects some removes them. */
  readonly refused: { readonly words: string; readonly body: Json }[];
  /** Signed thoughts, for a test that removes them. */
  readonly proofs: Proofs;
  /** Lets `model` answer with these in turn, and with the last one from then on. */
  answer(model: string, ...replies: readonly (MessageAnswer | Failure)[]): void;
  /** Sets the abilities of a model; the default are those of a new one. */
  facts(model: string, facts: ModelFacts): void;
  close(): Promise<void>;
}

interface MessagesRequest {
  readonly model: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Json & { readonly messages: readonly { readonly role: string; readonly content: readonly Json[] }[] };
}

/** Accepts the key `planted-anthropic-key` and no other. */
export const mockAnthropicKey = "planted-anthropic-key";

/** Starts a server on 127.0.0.1. */
export async function startMockAnthropic(): Promise<MockAnthropic> {
  const requests: MessagesRequest[] = [];
  const refused: { words: string; body: Json }[] = [];
  const proofs = new Proofs();
  const replies = new Map<string, readonly (MessageAnswer | Failure)[]>();
  const facts = new Map<string, ModelFacts>();
  const asked = new Map<string, number>();
  /** The text of each model so far, when its last answer was paused. */
  const paused = new Map<string, string>();

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    request.setEncoding("utf8");
    for await (const piece of request) text += piece;
    if (request.url !== "/v1/messages" || request.method !== "POST")
      return fail(response, { status: 404, type: "not_found_error", message: `not found: ${request.url}` });
    if (request.headers["x-api-key"] !== mockAnthropicKey)
      return fail(response, { status: 401, type: "authentication_error", message: "invalid x-api-key" });
    if (request.headers["anthropic-version"] !== "2023-06-01")
      return fail(response, {
        status: 400,
        type: "invalid_request_error",
        message: "anthropic-version: header is required",
      });
    const body = JSON.parse(text) as MessagesRequest["body"];
    const model = String(body.model);
    const words = refusalOf(body, facts.get(model) ?? newest, proofs, paused.get(model) ?? null);
    if (words !== null) {
      refused.push({ words, body });
      return fail(response, { status: 400, type: "invalid_request_error", message: words });
    }
    requests.push({ model, headers: request.headers, body });
    const earlier = asked.get(model) ?? 0;
    asked.set(model, earlier + 1);
    const scripted = replies.get(model) ?? [{}];
    const reply = scripted[earlier] ?? scripted.at(-1) ?? {};
    if ("status" in reply) return fail(response, reply);
    await say(response, reply, model);
  }

  async function say(response: ServerResponse, answer: MessageAnswer, model: string): Promise<void> {
    const { events, ends, content, document } = renderMessage(answer, model, proofs);
    const whole = [...(JSON.parse(paused.get(model) ?? "[]") as Json[]), ...content];
    if (answer.stop === "pause_turn") paused.set(model, JSON.stringify(whole));
    else paused.delete(model);
    if (answer.whole) {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(document));
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    for (const event of events) response.write(event);
    if (answer.until !== undefined) await answer.until;
    if (answer.breaks === "cut") {
      // Flush the written text before the connection closes.
      await new Promise((resolve) => response.write(": over\n\n", resolve));
      response.socket?.destroySoon();
      return;
    }
    const { breaks } = answer;
    if (breaks === undefined) response.end(ends.join(""));
    else response.end(`event: error\ndata: ${JSON.stringify({ type: "error", error: breaks })}\n\n`);
  }

  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    refused,
    proofs,
    answer(model, ...given) {
      replies.set(model, given);
      asked.delete(model);
    },
    facts: (model, given) => void facts.set(model, given),
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

const newest: ModelFacts = { thinking: "adaptive", efforts: ["low", "medium", "high", "xhigh", "max"] };

function fail(response: ServerResponse, { status, type, message, headers }: Failure): void {
  response
    .writeHead(status, { "content-type": "application/json", ...headers })
    .end(JSON.stringify({ type: "error", error: { type, message } }));
}
