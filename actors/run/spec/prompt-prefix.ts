import { hash } from "node:crypto";
import type { AnswerSchema } from "../../../manifests/answer-schema.ts";
import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";

/** The part that all model calls of an agent share: system text, tools and reply schema. */
export interface PromptPrefix {
  readonly digest: string;
  /** JSON of `{system, tools, answer}`; see `readPrefix`. */
  readonly body: string;
  readonly digests: { readonly system: string; readonly tools: string | null; readonly answer: string | null };
}

/** The parts of a prefix. `tools` and `answer` are JSON texts. */
export interface PrefixParts {
  readonly system: string;
  readonly tools: string | null;
  readonly answer: string | null;
}

const kept = new WeakMap<CompiledAgent, Map<string, PromptPrefix>>();

/** Returns the prefix of an agent's calls with a system text. Cached per agent, so that each text is hashed once. */
export function prefixOfAgent(agent: CompiledAgent, system: string, answer: AnswerSchema | null): PromptPrefix {
  let prefixes = kept.get(agent);
  if (prefixes === undefined) {
    prefixes = new Map();
    kept.set(agent, prefixes);
  }
  const key = answer === null ? system : `${answer.json}\n${system}`;
  let prefix = prefixes.get(key);
  if (prefix === undefined) {
    prefix = makePrefix({ system, tools: toolListJson(agent), answer: answer?.json ?? null });
    prefixes.set(key, prefix);
  }
  return prefix;
}

/** Returns the prompt prefix of these parts, with its digest. */
export function makePrefix(parts: PrefixParts): PromptPrefix {
  const { system, tools, answer } = parts;
  const body = JSON.stringify({ system, tools, answer });
  const digests = {
    system: digestOf(system),
    tools: tools === null ? null : digestOf(tools),
    answer: answer === null ? null : digestOf(answer),
  };
  return { digest: digestOf(body), body, digests };
}

/** Parses the body of a prefix. */
export function readPrefix(body: string): PrefixParts {
  return JSON.parse(body) as PrefixParts;
}

/** SHA-256 of a text, hexadecimal. */
export function digestOf(text: string): string {
  return hash("sha256", text);
}

const lists = new WeakMap<CompiledAgent, string>();

/** JSON text of an agent's tools for a provider, null without tools. Cached per compiled agent. */
export function toolListJson(agent: CompiledAgent): string | null {
  if (agent.tools.length === 0) return null;
  let list = lists.get(agent);
  if (list === undefined) {
    list = JSON.stringify(
      agent.tools.map((tool) => ({
        type: "function",
        function: {
          name: tool.name,
          description: tool.description,
          parameters: tool.shownParameters ?? tool.parameters,
          ...(tool.strict !== undefined && { strict: tool.strict }),
        },
      })),
    );
    lists.set(agent, list);
  }
  return list;
}
