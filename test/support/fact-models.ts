import type { Behaviour } from "./mock-model/behaviours.ts";

// Stand-ins for the models that capture and merge facts. They read the material of the request and follow marks in it.

/** The material of a request for facts: a turn, or facts. */
export interface Material {
  readonly turn?: readonly { readonly role: string; readonly content: string }[];
  readonly facts?: readonly { readonly number: number; readonly content: string }[];
}

/** Returns the material of a request. */
export function factsOf(body: Readonly<Record<string, unknown>>): Material {
  const messages = body.messages as readonly { role: string; content: string }[];
  return JSON.parse(messages.find(({ role }) => role === "user")?.content ?? "{}");
}

/**
 * Captures each line of the user that begins with FACT. `FACT instruction: …` is of that kind. The last word is the topic.
 */
export function capturedFacts(body: Readonly<Record<string, unknown>>): { text: string } {
  const said = (factsOf(body).turn ?? []).filter(({ role }) => role === "user").map(({ content }) => content);
  const lines = said
    .join("\n")
    .split("\n")
    .filter((line) => line.startsWith("FACT "));
  const facts = lines.map((line) => {
    const [, kind = "fact", content = ""] = /^FACT (?:(instruction|event|task): )?(.*)$/.exec(line) ?? [];
    return { content, kind, topic_key: content.match(/\p{L}+(?=\P{L}*$)/u)?.[0] ?? "", importance: 0.5 };
  });
  return { text: JSON.stringify({ facts }) };
}

/** The model that captures so. */
export const answersFacts: Behaviour = ({ body }) => capturedFacts(body);
