import { arithmeticIn } from "./demo-arithmetic.ts";

/** The demo model's reply: a text or a tool call. */
export interface DemoAnswer {
  readonly text: string;
  readonly call: { readonly name: string; readonly arguments: string } | null;
}

interface Message {
  readonly role: string;
  readonly content?: string | readonly { readonly type?: string; readonly text?: string }[] | null;
}

interface BoundTool {
  readonly function: { readonly name: string };
}

/** Characters of the user's text that are read, and that are repeated. */
const readMax = 2_000;
const echoMax = 200;
const todosMax = 8;

const signature =
  "I am svc's offline demo model: I answer without calling any provider. " +
  "For a real model set a provider's key, such as OPENAI_API_KEY or ANTHROPIC_API_KEY, and start svc again.";

/** Returns the reply to a thread; deterministic. */
export function demoAnswer(messages: readonly Message[], tools: readonly BoundTool[]): DemoAnswer {
  const lastUser = messages.findLastIndex((message) => message.role === "user");
  const asked = textOf(messages[lastUser]).slice(0, readMax);
  const results = messages.slice(lastUser + 1).filter((message) => message.role === "tool");
  const has = (name: string) => tools.some((tool) => tool.function.name === name);
  const expression = has("calculator") ? arithmeticIn(asked) : null;

  if (results.length > 0) return say(afterTool(textOf(results.at(-1)).slice(0, readMax), expression));
  if (expression !== null) return ask("calculator", { expression });
  if (has("todo_write") && wantsPlan(asked)) return ask("todo_write", { todos: todosFor(asked) });
  if (asked.trim() === "") return say(signature);
  return say(`${signature}\n\nYou said: “${shortened(asked)}”`);
}

function say(text: string): DemoAnswer {
  return { text, call: null };
}

function ask(name: string, args: object): DemoAnswer {
  return { text: "", call: { name, arguments: JSON.stringify(args) } };
}

function afterTool(result: string, expression: string | null): string {
  if (expression === null) return `Done. The tool says: ${shortened(result)}\n\n${signature}`;
  if (/^-?[\d.]/.test(result)) return `${expression} = ${shortened(result)}\n\n${signature}`;
  return `I could not work out ${expression}. The tool says: ${shortened(result)}\n\n${signature}`;
}

function wantsPlan(asked: string): boolean {
  return /\b(plan|to-?dos?|checklist|task list)\b/i.test(asked);
}

/** Returns the list items of the message, otherwise three generic steps. */
function todosFor(asked: string): { content: string; status: string }[] {
  const listed = asked
    .split("\n")
    .map((line) => /^\s*(?:[-*•]|\d{1,3}[.)])\s+(\S.*)$/.exec(line)?.[1])
    .filter((point) => point !== undefined)
    .slice(0, todosMax);
  const points = listed.length > 0 ? listed : ["Make the goal clear", "Do the work", "Check the result"];
  return points.map((content, at) => ({
    content: shortened(content),
    status: at === 0 ? "in_progress" : "pending",
  }));
}

function textOf(message: Message | undefined): string {
  const content = message?.content;
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map((part) => part?.text ?? "").join("\n") : "";
}

/** Shortens a text to one line. */
function shortened(text: string): string {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > echoMax ? `${line.slice(0, echoMax).toWellFormed()}…` : line;
}
