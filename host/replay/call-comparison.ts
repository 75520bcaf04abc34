import type { ModelRequest } from "../../actors/models/provider.ts";
import type { RebuiltCall } from "../../actors/run/replay/rebuilt-call.ts";
import type { CallFacts } from "../../storage/tables/model-calls.ts";
import { compareItems, compareLists, compareValues, type Difference } from "./difference.ts";

/** A model request of the replay, with recorded ids. */
export interface AskedNow {
  readonly request: ModelRequest;
  /** JSON text of its messages. */
  readonly messages: string;
}

/** True if the request has the same messages, tools and model as the recorded one. */
export function isSameCall({ messages, request }: AskedNow, rebuilt: RebuiltCall, { tries }: CallFacts): boolean {
  return rebuilt.messages === messages && rebuilt.tools === request.tools && mayGoTo(request, tries);
}

function mayGoTo({ route }: ModelRequest, tries: CallFacts["tries"]): boolean {
  return tries.length === 0 || tries.some(({ route: id }) => id === route.id);
}

/** Returns the differences between a request and the recorded one; `before` is the message list of the previous call. */
export function compareCall(
  { messages, request }: AskedNow,
  rebuilt: RebuiltCall,
  facts: CallFacts,
  before: string | null,
): Difference[] {
  const { temperature, max_tokens, thinking, stop, tool_choice, parallel_tool_calls } = facts.parameters;
  const expected = rebuilt.messages ?? rebuilt.words;
  const others =
    expected !== null
      ? compareMessages(expected, messages)
      : [{ what: "messages", expected: rebuilt.problems, found: behindSystem(messages).list }];
  // The log still produces the same messages, but the record shows that others were sent.
  const isAltered = expected !== null && others.length === 0 && rebuilt.problems.length > 0;
  const { route, choice } = request;
  return [
    ...others,
    ...(isAltered
      ? [{ what: newMessages(messages, before), expected: rebuilt.problems, found: shownNew(messages, before) }]
      : []),
    ...compareLists("tools", rebuilt.tools, request.tools),
    ...compareValues("answer", parsed(rebuilt.answer), parsed(request.answer?.json ?? null)),
    ...(mayGoTo(request, facts.tries) ? [] : compareValues("route", facts.tries[0]?.route, route.id)),
    ...compareValues("temperature", temperature, request.temperature),
    ...compareValues("max_tokens", max_tokens, request.max_tokens),
    ...compareValues("thinking", thinking, request.thinking),
    ...compareValues("stop", stop, request.stop),
    ...compareValues("tool_choice", tool_choice, choice?.tool_choice),
    ...compareValues("parallel_tool_calls", parallel_tool_calls, choice?.parallel_tool_calls),
  ];
}

/** Compares the system text and the messages after it. */
function compareMessages(expected: string, found: string): Difference[] {
  if (expected === found) return [];
  const [then, now] = [behindSystem(expected), behindSystem(found)];
  const different = [
    ...compareValues("system", then.system, now.system),
    ...compareItems("messages", then.list, now.list),
  ];
  // Equal values with different JSON text.
  return different.length === 0 ? [{ what: "messages", expected, found }] : different;
}

function behindSystem(messages: string): { readonly system: unknown; readonly list: readonly unknown[] } {
  const list = JSON.parse(messages) as { readonly role: string; readonly content: unknown }[];
  const [first, ...rest] = list;
  return first?.role === "system" ? { system: first.content, list: rest } : { system: null, list };
}

/** Returns the range of messages that no earlier call contained: the altered one is among them. */
function newMessages(messages: string, before: string | null): string {
  const last = behindSystem(messages).list.length - 1;
  const from = firstNew(messages, before);
  return from === last ? `messages[${from}]` : `messages[${from}] to messages[${last}]`;
}

function shownNew(messages: string, before: string | null): unknown {
  return behindSystem(messages).list.slice(firstNew(messages, before));
}

function firstNew(messages: string, before: string | null): number {
  const earlier = before === null ? [] : behindSystem(before).list.map((message) => JSON.stringify(message));
  const list = behindSystem(messages).list.map((message) => JSON.stringify(message));
  return Math.max(
    0,
    list.findIndex((message, place) => message !== earlier[place]),
  );
}

function parsed(text: string | null): unknown {
  return text === null ? null : JSON.parse(text);
}
