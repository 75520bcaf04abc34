import type { TestStream } from "./http-client.ts";
import type { Answer } from "./mock-model/answer.ts";
import type { Behaviour, Reply } from "./mock-model/behaviours.ts";
import type { Script, Step } from "./mock-model/script.ts";
import { type MockModel, startMockModel } from "./mock-model.ts";
import {
  type Env,
  manifestEnv,
  modelEnv,
  type ProcessServer,
  startServer,
  startServerProcess,
  type TestServer,
} from "./server.ts";
import type { Frame } from "./sse-frames.ts";
import type { Cleanup } from "./temp.ts";

// The shared parts of chat tests: a server with a mock model, turns to send, and answers for the model.

interface ChatOptions {
  /** Ids of routes to the mock model; the first is the default. A route's wire model is its id. */
  readonly models: readonly string[];
  readonly manifests?: Readonly<Record<string, object>>;
  /** Routes added to those of `models`. */
  readonly routes?: Readonly<Record<string, object>>;
  /** Options of other providers, all at the mock's address. */
  readonly providers?: Readonly<Record<string, object>>;
  readonly env?: Env;
}

/** A server whose models are mocked. Rates of `models` are 2, 8, 0.5 and 2 USD per million tokens. */
export async function startChat(
  atEnd: Cleanup,
  options: ChatOptions,
): Promise<{ server: TestServer; mock: MockModel }> {
  const { mock, env } = await startMock(atEnd, options);
  return { mock, server: await startServer({ atEnd, env }) };
}

/** The same in a process of its own. */
export async function startChatProcess(
  atEnd: Cleanup,
  options: ChatOptions,
): Promise<{ server: ProcessServer; mock: MockModel }> {
  const { mock, env } = await startMock(atEnd, options);
  return { mock, server: await startServerProcess({ atEnd, env }) };
}

/** A mock model, and the settings of servers that use it. */
export async function startMock(
  atEnd: Cleanup,
  { models, manifests = { agent: {} }, routes = {}, providers = {}, env = {} }: ChatOptions,
): Promise<{ mock: MockModel; env: Env }> {
  const mock = await startMockModel();
  atEnd.after(() => mock.close());
  const modelled = modelEnv(mock, models);
  const others = Object.entries(providers).map(([name, options]) => [name, { base_url: mock.url, ...options }]);
  return {
    mock,
    env: {
      ...modelled,
      SVC_MODEL_ROUTES: merged(modelled.SVC_MODEL_ROUTES, routes),
      SVC_MODEL_PROVIDER_OPTIONS: merged(modelled.SVC_MODEL_PROVIDER_OPTIONS, Object.fromEntries(others)),
      ...manifestEnv(atEnd, manifests),
      ...env,
    },
  };
}

function merged(json: string | undefined, more: object): string {
  return JSON.stringify({ ...JSON.parse(json ?? "{}"), ...more });
}

/** A request for a turn with one user message. */
export function turn(manifest: string, text: string, fields: object = {}) {
  return { manifest, messages: [{ role: "user", content: text }], ...fields };
}

/** The messages that a request shows the model, without the system message. */
export function shown(request: MockModel["requests"][number] | undefined): { role: string; content: string }[] {
  const messages = (request?.body.messages ?? []) as { role: string; content: string }[];
  return messages.filter(({ role }) => role !== "system");
}

/** The system message of a request; undefined when there is none. */
export function systemOf(request: MockModel["requests"][number] | undefined): string | undefined {
  const messages = (request?.body.messages ?? []) as { role: string; content: string }[];
  return messages.find(({ role }) => role === "system")?.content;
}

/** Asks for these tools in one answer, as `call_1`, `call_2` and so on. */
export function calls(...wanted: readonly (readonly [name: string, args: object | string])[]): Answer {
  return {
    toolCalls: wanted.map(([name, args], at) => ({
      id: `call_${at + 1}`,
      name,
      arguments: typeof args === "string" ? args : JSON.stringify(args),
    })),
  };
}

/** Answers a user's message with the first of these, and each following tool result with the next. */
export function inTurn(...replies: readonly Reply[]): Behaviour {
  return ({ body }) => {
    const messages = body.messages as readonly { role: string }[];
    const asked = messages.slice(messages.findLastIndex(({ role }) => role === "user"));
    return replies[asked.filter(({ role }) => role === "assistant").length] as Reply;
  };
}

/** Sends these texts one by one, and waits at each promise. */
export function says(...parts: readonly (string | Promise<unknown>)[]): Script {
  const steps = parts.map(
    (part): Step => (typeof part === "string" ? { send: chunk({ content: part }, null) } : { hold: part }),
  );
  return { steps: [...steps, { send: `${chunk({}, "stop")}data: [DONE]\n\n` }] };
}

/** One event of a model's stream. */
export function chunk(delta: object, finish: string | null): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
}

/** A promise for a model that never sends another word. */
export const never: Promise<never> = new Promise(() => {});

/** Blocks a model until the test opens the gate. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

/** Names of frames, with each run of token frames as one `text`. */
export function outline(frames: readonly Frame[]): string[] {
  return frames.flatMap((frame, at) => {
    if (frame.name === "text_delta") return [];
    if (!isToken(frame)) return [frame.name];
    return at > 0 && frames[at - 1]?.name === "text_delta" ? [] : ["text"];
  });
}

function isToken(frame: Frame): boolean {
  return frame.name === "session_progress" && frame.json.data.progress !== undefined;
}

/** The text of all token frames, joined. */
export function wordsOf(frames: readonly Frame[]): string {
  return frames.map((frame) => (frame.name === "text_delta" ? frame.json.data.delta : "")).join("");
}

/** Frames until one fits, that one with them; comments are left out. */
export async function framesUntil(stream: TestStream, isLast: (frame: Frame) => boolean): Promise<Frame[]> {
  const frames: Frame[] = [];
  for await (const frame of stream) {
    if (frame.name !== ":") frames.push(frame);
    if (isLast(frame)) return frames;
  }
  throw new Error(`the stream ended:\n${stream.text}`);
}

/** True if a frame of a reattached stream is the committed reply of a turn. */
export function isReply({ name, json }: Frame): boolean {
  return name === "session_event" && json.data.role === "assistant" && json.data.tool_calls === undefined;
}

/** Sequence numbers of the session events. */
export function eventSeqs(frames: readonly Frame[]): number[] {
  return frames.filter(({ name }) => name === "session_event").map(({ json }) => json.data.seq);
}
